"""Events of dp_accounting, to Rustle's and back, against the package itself."""

import json
import math

import pytest
import rustle
from rustle import dp_events

peer = pytest.importorskip("dp_accounting")
events = peer.dp_event

GAUSSIAN = events.GaussianDpEvent(2.0)
TRAINING = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)), 500)

ROUND_TRIPS = [
    events.NoOpDpEvent(),
    GAUSSIAN,
    TRAINING,
    events.LaplaceDpEvent(3.0),
    events.DiscreteLaplaceDpEvent(0.3, 2),
    events.ComposedDpEvent([TRAINING, GAUSSIAN, events.ComposedDpEvent([events.LaplaceDpEvent(1.5)])]),
    events.ZCDpEvent(0.02),
    events.RepeatAndSelectDpEvent(TRAINING, 10, 1.0),
    events.RepeatAndSelectDpEvent(GAUSSIAN, 5, math.inf),
    events.MixtureOfGaussiansDpEvent(1.5, [0.0, 1.0, 2.0], [0.9, 0.09, 0.01]),
    events.TruncatedSubsampledGaussianDpEvent(1000, 0.02, 30, 1.2),
    events.SingleEpochTreeAggregationDpEvent(4.0, [16, 9]),
]


@pytest.mark.parametrize("event", ROUND_TRIPS, ids=lambda event: type(event).__name__)
def test_events_and_their_named_tuples_come_back_as_they_were(event):
    read = dp_events.from_dp_event(event)
    assert dp_events.from_dp_event(event.to_named_tuple()) == read
    again = json.loads(json.dumps(read))
    assert dp_events.to_dp_event(again) == event


def test_a_replacement_moves_sums_twice_as_far():
    event = events.SampledWithoutReplacementDpEvent(1000, 20, events.GaussianDpEvent(1.0))
    read = dp_events.from_dp_event(event, neighbouring="replace")
    assert read["noise_multiplier"] == 2.0
    assert dp_events.to_dp_event(read, neighbouring="replace") == event
    accountant = peer.rdp.RdpAccountant(neighboring_relation=peer.NeighboringRelation.REPLACE_ONE)
    accountant.compose(event, 200)
    ours = rustle.epsilon(
        {"kind": "self-composed", "event": read, "count": 200}, delta=1e-6, neighbouring="replace"
    )
    # The package knows only a Rényi bound.
    assert 0.5 * accountant.get_epsilon(1e-6) < ours < accountant.get_epsilon(1e-6)


def test_a_ledger_costs_the_same_on_both_sides():
    accountant = peer.pld.PLDAccountant()
    for event, count in [(TRAINING, 2), (GAUSSIAN, 1), (events.LaplaceDpEvent(5.0), 3)]:
        accountant.compose(event, count)
    ledger = accountant.ledger
    read = dp_events.from_dp_event(ledger)
    assert dp_events.to_dp_event(read) == ledger
    ours = rustle.epsilon(read, delta=1e-6)
    assert ours == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def test_a_run_of_correlated_noise_is_written_as_what_costs_the_same():
    run = {
        "kind": "matrix-mechanism", "noise_multiplier": 4.0, "iterations": 100, "sensitivity": 1.6, "bands": 4,
        "largest_column_norm": 1.0, "min_sep": 25, "max_participations": 4,
    }  # fmt: skip
    assert dp_events.to_dp_event(run) == events.GaussianDpEvent(2.5)
    cyclic = {"kind": "cyclic-poisson", "sampling_probability": 0.01, "partition": "independent"}
    written = dp_events.to_dp_event({**run, "sampling": cyclic})
    assert written == events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.04, events.GaussianDpEvent(4.0)), 25)


def test_a_cap_is_written_or_refused_and_never_dropped():
    run = {
        "kind": "matrix-mechanism", "noise_multiplier": 1.0, "iterations": 2000, "sensitivity": 1.0, "bands": 1,
        "largest_column_norm": 1.0, "min_sep": 1, "max_participations": 2000,
    }  # fmt: skip
    cap = {"batch_cap": 600, "dataset_size": 60000}
    capped = {"kind": "cyclic-poisson", "sampling_probability": 0.01, "partition": "independent", "cap": cap}
    written = dp_events.to_dp_event({**run, "sampling": capped})
    one = events.TruncatedSubsampledGaussianDpEvent(60000, 0.01, 600, 1.0)
    assert written == events.SelfComposedDpEvent(one, 2000)
    with pytest.raises(rustle.RustleError, match="cap is 600 beside 4 bands"):
        dp_events.to_dp_event({**run, "bands": 4, "sampling": capped})
    split = {**capped, "partition": "equal-split", "cap": None}
    with pytest.raises(rustle.RustleError, match="partition is 'equal-split'"):
        dp_events.to_dp_event({**run, "sampling": split})


@pytest.mark.parametrize(
    "event, neighbouring, words",
    [
        (events.NonPrivateDpEvent(), "zero-out", "NonPrivateDpEvent"),
        (events.RandomizedResponseDpEvent(0.5, 3), "zero-out", "RandomizedResponseDpEvent"),
        (TRAINING, "replace", "zero-out or add-remove for PoissonSampledDpEvent"),
        (events.SampledWithoutReplacementDpEvent(10, 2, GAUSSIAN), "zero-out", "'replace' for"),
        (events.PoissonSampledDpEvent(0.1, events.LaplaceDpEvent(1.0)), "zero-out", "LaplaceDpEvent within"),
        (events.ZCDpEvent(0.1, 0.2), "zero-out", "xi is 0.2; allowed: 0"),
        (GAUSSIAN, "sideways", "neighbouring is 'sideways'; allowed: zero-out"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(event, neighbouring, words):
    with pytest.raises(rustle.RustleError, match=words):
        dp_events.from_dp_event(event, neighbouring=neighbouring)


def test_events_that_the_package_lacks_are_refused_by_name():
    for event in [
        {"kind": "random-allocation", "noise_multiplier": 1.0, "batches_per_epoch": 10, "participations": 1},
        {"kind": "approximate-dp", "epsilon": 1.0, "delta": 1e-6},
    ]:
        with pytest.raises(rustle.RustleError, match=event["kind"]):
            dp_events.to_dp_event(event)
