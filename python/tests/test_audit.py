"""Audits: figures against scipy where it is installed, coverage, harness, adapters honest and mistaken."""

import json
import math

import numpy as np
import pytest

import rustle
from rustle import audit
from rustle.audit import selftest
from rustle.errors import AccountingError, InvalidArgument


def test_a_published_bound_and_how_many_canaries_it_takes():
    found = audit.bound_of_guesses(1000, 600, 600, delta=1e-5, confidence=0.95)
    assert found.epsilon_lower == pytest.approx(5.270399, abs=1e-5) and not found.refuted
    needed = audit.canaries_needed(epsilon=4, delta=1e-6)
    assert audit.bound_of_guesses(needed, needed, needed, delta=1e-6, epsilon=4).refuted
    with pytest.raises(AccountingError, match=f"{needed} canaries or more"):
        audit.bound_of_guesses(needed - 1, needed - 1, needed - 1, delta=1e-6, epsilon=4)


def test_two_populations_against_scipy():
    beta = pytest.importorskip("scipy.stats").beta
    dice = np.random.default_rng(5)
    included = np.arange(600) % 2 == 0
    scores = dice.normal(size=600) + 2 * included
    delta, confidence = 1e-3, 0.95
    outside, inside = np.sort(scores[~included])[::-1], scores[included]
    count = len(outside)
    powers = [2**i for i in range(10) if 2**i <= -(-count // 2)]
    ranks = sorted({*powers, *(count + 1 - power for power in powers)})
    tail = (1 - confidence) / len(ranks) / 2
    best = 0.0
    for rank in ranks:
        above = int((inside > outside[rank - 1]).sum())
        false = beta.ppf(1 - tail, rank, count - rank + 1)
        true = beta.ppf(tail, above, len(inside) - above + 1) if above else 0.0
        for ratio in ((true - delta) / false, (1 - false - delta) / (1 - true)):
            best = max(best, math.log(ratio) if ratio > 0 else 0.0)
    found = audit.bound(scores, included, delta=delta, confidence=confidence, method="clopper-pearson")
    assert found.epsilon_lower == pytest.approx(best, abs=1e-5) and found.epsilon_lower <= best


@pytest.mark.parametrize("method", ["one-run", "clopper-pearson", "gaussian"])
def test_the_bound_of_gaussian_noise_is_below_its_epsilon(method):
    """At 90 % no more than a tenth of bounds may be above; they are conservative, and so far fewer are."""
    sigma, delta, above = 1.0, 1e-5, 0
    event = rustle.event(rustle.plan(
        float=True,
        iterations=1, epsilon=4, delta=delta, min_sep=1, max_participations=1, mechanism="identity"
    ).replace(noise_multiplier=sigma))
    epsilon = rustle.epsilon(event, delta=delta)
    for seed in range(40):
        dice = np.random.default_rng(seed)
        included = audit.coins(600, seed)
        scores = sigma * dice.normal(size=600) + included
        found = audit.bound(scores, included, delta=delta, confidence=0.9, method=method)
        above += found.epsilon_lower > epsilon
    assert above <= 9


def test_a_black_box_that_tells_everything_is_refuted_and_one_that_tells_nothing_is_not():
    def leaks(included, seed):
        return included + 0.1 * np.random.default_rng(seed).normal(size=len(included))

    def keeps(included, seed):
        return np.random.default_rng(seed).normal(size=len(included))

    assert audit.black_box(leaks, 500, delta=1e-6, epsilon=2.0).refuted
    for seed in range(5):
        assert not audit.black_box(keeps, 500, delta=1e-6, epsilon=0.1, seed=seed).refuted


def test_labels_reach_no_score_by_the_attack_itself():
    """Noise without a trace of canaries: the learned attack shows nothing."""

    def nothing(included, seed):
        return np.random.default_rng([seed, 3]).normal(size=(4, len(included)))

    for seed in range(20):
        found = audit.white_box(nothing, 400, delta=1e-6, epsilon=0.5, method="gaussian", seed=seed)
        assert not found.refuted


def test_what_says_nothing_is_refused():
    with pytest.raises(InvalidArgument, match="canaries is 0"):
        audit.coins(0, 0)
    with pytest.raises(InvalidArgument, match="one-run, clopper-pearson, gaussian"):
        audit.bound([1.0], [True], delta=1e-6, method="guess")
    with pytest.raises(InvalidArgument, match="one for each score"):
        audit.bound([1.0], [True, False], delta=1e-6)
    with pytest.raises(InvalidArgument, match=r"allowed: \(rows, 100\)"):
        audit.white_box(lambda included, seed: np.zeros(100), 100, delta=1e-6)
    with pytest.raises(InvalidArgument, match="too few to learn"):
        audit.white_box(lambda included, seed: np.zeros((50, 100)), 100, delta=1e-6)


@pytest.mark.parametrize("training", ["session", "federated", "torch", "opacus", "jax"])
def test_adapters_keep_their_epsilon_and_mistakes_are_found(training, capsys):
    pytest.importorskip({"session": "numpy", "federated": "numpy"}.get(training, training))
    status = selftest.main(["--audits", "2", "--trainings", training])
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0, results
    assert [result.get("mistake") for result in results] == [None, *selftest.PLANTED.get(training, [])]
