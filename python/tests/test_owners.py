"""Records with several owners: batches, what they cost, and plans that do not fit."""

import json

import numpy as np
import pytest
from conftest import prepared

import rustle
from rustle import errors, schemes, user_level

SEED, ROUNDS = bytes(range(32)), 12
RECORDS = [(record, [f"user{record % 7}", f"user{(record * record) % 11}"]) for record in range(60)]
NAMES = dict(RECORDS)


def bound(min_sep=4, max_participations=3, **more):
    return schemes.contribution_bound(5, min_sep, max_participations, **more)


def batches(scheme, owners=None, rounds=ROUNDS):
    return rustle.Batches(scheme, owners or rustle.Owners(RECORDS), rounds, SEED)


def test_no_owner_is_in_more_rounds_or_nearer_ones():
    drawn = batches(bound())
    rounds = {}
    for round, ids in enumerate(drawn):
        for name in [name for record in ids for name in set(NAMES[record])]:
            rounds.setdefault(name, []).append(round)
    assert max(map(len, rounds.values())) <= 3
    assert all(np.diff(taken).min(initial=99) >= 4 for taken in rounds.values())
    found = drawn.owner_statistics()
    assert found["records"] == 60 and 0 < found["kept"] < 60
    assert found["drawn"]["max_participations"] == max(map(len, rounds.values()))
    event = drawn.event
    assert (event["unit"], event["account"]) == ("owner", "any-order-public-size")
    assert event["neighbouring"] == ["zero-out", "replace"]


def test_files_of_owners_are_read(tmp_path):
    path = tmp_path / "owners.csv"
    path.write_text("".join(f"{record},{','.join(names)}\n" for record, names in RECORDS))
    one, other = batches(bound()), batches(bound(), rustle.Owners.read(path))
    assert one.digest == other.digest and np.array_equal(one[3], other[3])
    assert batches(bound(), rustle.Owners(RECORDS[1:])).digest != one.digest
    path.write_text("1,a\nx,b\n")
    with pytest.raises(errors.InvalidArgument, match="line 2"):
        rustle.Owners.read(path)
    with pytest.raises(errors.InvalidArgument, match="has no owner"):
        rustle.Owners([(4, [])])
    with pytest.raises(errors.InvalidArgument, match="'ann'; allowed: a list"):
        rustle.Owners([(4, "ann")])


def test_rounds_take_batches_that_keep_the_plan(folder):
    with rustle.connect(f"inproc://{folder}") as session:
        for scheme in (
            bound(min_sep=3),
            bound(min_sep=1, max_participations=4),
            bound(records_per_batch=2),
            schemes.els(2, 0.1),
        ):
            with pytest.raises(errors.InvalidArgument, match="owner|allowed by the plan"):
                rustle.Rounds(batches(scheme), session)
        with pytest.raises(errors.InvalidArgument, match="no bound"):
            batches(schemes.poisson(0.1))
        rounds = rustle.Rounds(batches(bound()), session)
        for ids in rounds:
            grown = np.full(session.dimension, len(ids) / np.sqrt(session.dimension), np.float32)
            session.privatize_(grown, session.next_step)
        assert session.next_step == ROUNDS


def test_data_sets_hold_every_record_that_batches_name():
    drawn = batches(bound())
    drawn.check_length(60)
    drawn.check_length(99)
    with pytest.raises(errors.InvalidArgument, match="60 or more"):
        drawn.check_length(59)
    with pytest.raises(errors.InvalidArgument, match="allowed: 7"):
        rustle.Batches(schemes.fixed_order(2), 7, 4, SEED).check_length(8)


def test_sampled_records_of_owners_cost_what_those_of_users_do(tmp_path):
    plan = user_level.plan(
        float=True,
        iterations=ROUNDS, epsilon=3.0, delta=1e-5, sampling_probability=0.2, group_size=2, dimension=40
    )
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        training = user_level.Training(session, batches(schemes.els(2, 0.2)), divide_by=4.0)
        assert training.epsilon(1e-5) == pytest.approx(3.0, rel=1e-3)
        kept = batches(schemes.els(2, 0.2)).owner_statistics()["kept"]
        assert training.expected_size == pytest.approx(0.2 * kept)
        with pytest.raises(errors.RustleError):
            training.epsilon(1e-5, neighbouring="add-remove")
        for round, ids in training:
            training.noisy_mean(round, np.zeros((len(ids), 40)))


def test_statements_name_the_unit_of_the_batches(folder):
    with rustle.connect(f"inproc://{folder}") as session:
        plan = session.plan
        assert json.loads(session.report(format="json"))["unit"] == "user"
        rustle.Rounds(batches(bound()), session)
        assert json.loads(session.report(format="json"))["unit"] == "owner"
        assert json.loads(session.report(format="json", unit="device"))["unit"] == "device"
        with pytest.raises(errors.RustleError, match="add-remove"):
            session.report(neighbouring="add-remove")
    assert json.loads(rustle.report(plan, format="json", unit="example"))["unit"] == "example"
    with pytest.raises(errors.InvalidArgument, match="unit.*allowed: user, example, device, owner"):
        rustle.report(plan, unit="house")
