"""What a federated client sends, and when it may."""

import numpy as np
import pytest
from conftest import STEPS

import rustle
from rustle import errors, federated
from rustle.federated import Participation


def test_a_local_update_is_that_of_sgd():
    data = np.arange(6.0).reshape(3, 2)
    change = federated.local_update(np.ones(2), data, lambda here, x: here - x, 0.5)
    here = np.ones(2)
    for x in data:
        here = here - 0.5 * (here - x)
    assert np.allclose(change, here - 1)
    assert np.linalg.norm(federated.clip(np.full(4, 1e200), 2.0)) == pytest.approx(2.0)
    assert np.array_equal(federated.clip(np.zeros(3), 2.0), np.zeros(3))


@pytest.mark.parametrize("bad", [[1.0, np.nan], [np.inf, 0.0]])
def test_what_is_not_finite_is_not_clipped(bad):
    with pytest.raises(errors.InvalidArgument, match="not finite"):
        federated.clip(np.array(bad), 1.0)
    for norm in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(errors.InvalidArgument, match="norm"):
            federated.clip(np.ones(2), norm)


def test_participation_keeps_the_plans(plan):
    seen = Participation(min_sep=3, max_participations=2)
    seen.record(["a", "b"], 0)
    assert seen.eligible(["a", "b", "c"], 2) == ["c"] and seen.eligible(["a", "b", "c"], 3) == ["a", "b", "c"]
    with pytest.raises(errors.InvalidArgument, match="3 rounds apart"):
        seen.record(["c", "a"], 2)
    seen.record(["c"], 2)
    seen.record(["a"], 4)
    other = Participation(3, 2)
    other.load_state_dict(seen.state_dict())
    assert other.eligible(["a", "b", "c"], 100) == ["b", "c"]
    with pytest.raises(errors.InvalidArgument, match="twice"):
        other.record(["c", "c"], 100)
    batches = rustle.Batches(rustle.schemes.fixed_order(4), 30, STEPS, bytes(32))
    kept = Participation.of(plan)
    for round, clients in enumerate(batches):
        kept.record(clients.tolist(), round)
