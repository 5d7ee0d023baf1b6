"""Data sets whose records come and go within a run, by loaders that check each step: others would have their numbers then."""

import numpy as np
import pytest
from misuse import RECORDS, SIZE, batches, planned

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors


def in_order(data, session):
    return rustle.torch.in_order(torch.utils.data.DataLoader(data, batch_size=SIZE), session)


def by_rounds(data, session):
    return rustle.torch.DataLoader(data, rustle.Rounds(batches(), session, steps_per_epoch=4))


def dropped(data):
    del data[SIZE:]


def dropped_first(data):
    del data[0]


def added(data):
    data.append(data[0])


@pytest.mark.parametrize("steps", [4, 2])
@pytest.mark.parametrize("change", [dropped, dropped_first, added])
@pytest.mark.parametrize("loaded", [in_order, by_rounds])
def test_a_data_set_keeps_its_length(tmp_path, loaded, change, steps):
    """Between epochs and within one: a record would return sooner, and more often, than the plan allows."""
    data = list(torch.arange(RECORDS))
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=12)}") as session:
        loader, values = loaded(data, session), np.zeros(12, np.float32)
        with pytest.raises(errors.InvalidArgument, match=f"the dataset has .* records now and had {RECORDS}; allowed: one length"):
            for _ in range(2):
                for _ in loader:
                    session.privatize_(values, session.next_step)
                    if session.next_step == steps:
                        change(data)
        assert session.next_step == steps


def test_a_pass_keeps_its_batches(tmp_path):
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=12)}") as session:
        given = torch.utils.data.DataLoader(list(range(RECORDS)), batch_size=SIZE)
        loader = rustle.torch.in_order(given, session)
        given.batch_sampler.batch_size = RECORDS
        with pytest.raises(errors.InvalidArgument, match=f"1 batches of {RECORDS} an epoch now and had 4 of {SIZE}; allowed"):
            next(iter(loader))
