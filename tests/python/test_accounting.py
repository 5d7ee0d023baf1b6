"""What `rustle account` says of sampled rounds, trees and batches, against plain numerics written anew here."""

import math
import subprocess

import mpmath
import numpy as np
import pytest
from matrices import Tree
from rustle import BINARY, plan, rustle, write_plan
from scipy.stats import binom

DELTA = 1e-6


def gaussian_delta(epsilon, mu):
    with mpmath.workdps(80):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        second = mpmath.exp(epsilon) * mpmath.erfc((mu / 2 + epsilon / mu) / mpmath.sqrt(2)) / 2
        return mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2 - second


@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-10, 1e-30, 1e-100, 1e-300])
@pytest.mark.parametrize("mu", [0.05, 0.7, 1.0, 8.0, 300.0])
def test_gaussian_at_any_delta(mu, delta):
    sigma = 1 / mu
    asked = ["account", "gaussian", "--sensitivity", 1, "--noise-multiplier", sigma]
    epsilon = rustle(*asked, "--delta", delta)["epsilon"]
    # What the program had in its hands: the quotient of two floats.
    mu = 1 / sigma
    assert gaussian_delta(epsilon, mu) <= delta * (1 + mpmath.mpf(10) ** -9)
    if epsilon > 0:
        assert gaussian_delta(epsilon * (1 - 1e-9), mu) > delta
        back = rustle(*asked, "--epsilon", epsilon)["delta"]
        assert abs(back / gaussian_delta(epsilon, mu) - 1) < 1e-9


@pytest.mark.parametrize(
    "sigma, epsilon, delta", [(1e12, None, 1e-13), (1e16, None, 1e-17), (1e16, 0, None), (1e9, 1e-9, None)]
)
def test_gaussian_of_all_but_no_sensitivity(sigma, epsilon, delta):
    """Two terms of δ that are the same to f64's last digit."""
    asked = ["account", "gaussian", "--sensitivity", 1, "--noise-multiplier", sigma]
    if epsilon is None:
        epsilon = rustle(*asked, "--delta", delta)["epsilon"]
    else:
        delta = rustle(*asked, "--epsilon", epsilon)["delta"]
    assert 1 - 1e-9 < gaussian_delta(epsilon, 1 / sigma) / delta <= 1 + 1e-12


def test_a_sensitivity_that_f64_hardly_holds_costs_nothing():
    words = ["--sensitivity", 1e-300, "--noise-multiplier", 1e3, "--epsilon", 1e6]
    assert rustle("account", "gaussian", *words)["delta"] == 0


# Privacy-loss distributions on one plain grid: no tilting, no tails treated apart.

PLACES = 1 << 20


def loss_masses(sigma, shifts, weights, remove, half):
    """Masses of one round's loss on PLACES places over −half…half, of Σ wᵢ·N(sᵢ, σ²) against N(0, σ²) or the other way
    round. Each mass goes to the two places beside it so that its mean is kept."""
    shifts, weights = np.array(shifts, float), np.array(weights, float)
    x = np.linspace(-12 * sigma, shifts.max() + 12 * sigma, PLACES)
    plain = np.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    ratio = sum(w * np.exp((2 * s * x - s * s) / (2 * sigma**2)) for s, w in zip(shifts, weights))
    mass = (plain * ratio if remove else plain) * (x[1] - x[0])
    loss = np.log(ratio) if remove else -np.log(ratio)
    step = 2 * half / PLACES
    place = loss / step
    below = np.floor(place).astype(int)
    assert np.abs(below[mass > 1e-25]).max() < PLACES // 2
    masses = np.bincount(below % PLACES, mass * (1 - (place - below)), PLACES)
    masses += np.bincount((below + 1) % PLACES, mass * (place - below), PLACES)
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    return masses


def plain_epsilon(sigma, shifts, weights, rounds, delta, half):
    return max(direction(sigma, shifts, weights, rounds, delta, half, remove) for remove in (True, False))


def direction(sigma, shifts, weights, rounds, delta, half, remove):
    one = loss_masses(sigma, shifts, weights, remove, half)
    masses = np.fft.irfft(np.fft.rfft(one) ** rounds, PLACES)
    # δ at each place ε ≥ 0: the masses above it, less e^ε times them as the other sees them.
    epsilons = np.arange(PLACES // 2) * (2 * half / PLACES)
    masses = masses[: PLACES // 2]
    above = np.cumsum(masses[::-1])[::-1]
    other = np.cumsum((masses * np.exp(-epsilons))[::-1])[::-1]
    deltas = above - np.exp(epsilons) * other
    return epsilons[np.argmax(deltas <= delta)]


@pytest.mark.parametrize(
    "sigma, q, rounds, half", [(1.0, 0.01, 200, 9.0), (0.8, 0.1, 20, 25.0), (2.0, 0.2, 64, 9.0), (1.5, 0.5, 10, 16.0)]
)
def test_poisson_by_a_plain_grid(sigma, q, rounds, half):
    said = rustle(
        "account", "poisson", "--noise-multiplier", sigma, "--sampling-probability", q, "--iterations", rounds,
        "--delta", DELTA,
    )["epsilon"]  # fmt: skip
    plain = plain_epsilon(sigma, [0, 1], [1 - q, q], rounds, DELTA, half)
    assert -1e-6 < said / plain - 1 < 6e-5


@pytest.mark.parametrize(
    "sigma, q, group, rounds, half", [(2.0, 0.05, 3, 30, 16.0), (3.0, 0.1, 8, 10, 20.0), (1.5, 0.02, 2, 100, 16.0)]
)
def test_users_of_many_records_by_a_plain_grid(sigma, q, group, rounds, half):
    said = user_level(sigma, q, group, rounds)
    records = np.arange(group + 1)
    plain = plain_epsilon(sigma, records, binom.pmf(records, group, q), rounds, DELTA, half)
    assert -1e-6 < said / plain - 1 < 6e-5


def poisson(sigma, q, steps, delta=DELTA, *words):
    asked = ["--noise-multiplier", sigma, "--sampling-probability", q, "--iterations", steps, "--delta", delta]
    return rustle("account", "poisson", *asked, *words)["epsilon"]


def user_level(sigma, q, group, steps, delta=DELTA):
    asked = ["--noise-multiplier", sigma, "--sampling-probability", q, "--iterations", steps, "--delta", delta]
    return rustle("account", "user-level", *asked, "--group-size", group)["epsilon"]


def sampled_once(epsilon, sigma, q):
    """δ of removing a record from one round: P's mass less e^ε times Q's where the loss is above ε."""
    with mpmath.workdps(60):
        epsilon, s, q = mpmath.mpf(epsilon), 1 / mpmath.mpf(sigma), mpmath.mpf(q)
        x = (mpmath.log((mpmath.expm1(epsilon) + q) / q) + s * s / 2) / s
        plain, moved = mpmath.erfc(x / mpmath.sqrt(2)) / 2, mpmath.erfc((x - s) / mpmath.sqrt(2)) / 2
        return (1 - q) * plain + q * moved - mpmath.exp(epsilon) * plain


@pytest.mark.parametrize(
    "sigma, q, delta",
    [(0.22, 1e-6, 1e-9), (0.25, 1e-6, 1e-9), (0.2941, 1.091e-6, 9.075e-9), (0.183904, 7.088e-6, 6.406e-9),
     (0.1, 1e-9, 1e-12), (0.15, 1e-8, 5e-9), (0.3, 1e-4, 1e-7), (1.0, 1e-3, 1e-6), (2.0, 1e-9, 1e-10)],
)  # fmt: skip
def test_one_round_in_closed_form(sigma, q, delta):
    """Little noise and rare records: a loss that is all but flat and then rises by many decades."""
    epsilon = poisson(sigma, q, 1, delta)
    assert epsilon > 0
    assert sampled_once(epsilon, sigma, q) <= delta * (1 + mpmath.mpf(10) ** -9)
    # The fourth digit of an ε near zero is of no use.
    assert epsilon < 1e-3 or sampled_once(epsilon * (1 - 2e-4), sigma, q) > delta


def test_calibrated_rare_records():
    words = ["--sampling-probability", 3.183326733268341e-6, "--iterations", 1, "--epsilon", 0.01, "--delta", 4e-7]
    sigma = rustle("calibrate", "poisson", *words)["noise_multiplier"]
    assert sampled_once(0.01, sigma, 3.183326733268341e-6) <= 4e-7 * (1 + mpmath.mpf(10) ** -9)


def test_one_record_a_user_is_plain_sampling():
    assert user_level(1.1, 0.03, 1, 300) == poisson(1.1, 0.03, 300)


def test_sampling_always_is_no_sampling():
    exact = rustle("account", "gaussian", "--sensitivity", 5, "--noise-multiplier", 3, "--delta", DELTA)["epsilon"]
    assert poisson(3, 1, 25) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("n, p, q", [(2000, 8, 0.005), (2001, 8, 0.005), (7, 8, 0.1), (100, 1, 0.3)])
def test_cyclic_poisson_is_fewer_rounds_at_a_higher_probability(n, p, q):
    """A remainder of n/p is a round more, never one less."""
    words = ["--noise-multiplier", 1, "--sampling-probability", q, "--bands", p, "--iterations", n, "--delta", DELTA]
    assert rustle("account", "band-mf", *words)["epsilon"] == poisson(1, p * q, -(-n // p))


@pytest.mark.parametrize("n, min_sep, participations", [(12, 1, 3), (16, 5, 3), (21, 4, 4), (23, 6, 3), (30, 11, 2)])
def test_tree_by_all_patterns(n, min_sep, participations):
    """min_sep counts j − i: what papers call MinS is one less."""
    said = rustle(
        "account", "tree", "--noise-multiplier", 2, "--iterations", n, "--min-sep", min_sep,
        "--max-participations", participations, "--delta", 1e-10,
    )  # fmt: skip
    true = Tree(n).sensitivity(min_sep, participations)
    assert said["rho"] == pytest.approx(true**2 / 8, rel=1e-12)
    assert gaussian_delta(said["epsilon"], true / 2) == pytest.approx(1e-10, rel=1e-9)


# Balls in bins with two batches: the loss depends on two numbers.


def two_batches(gram, sigma, epsilon):
    """(δ of removing, δ of adding) by the trapezoidal rule over both, in units of the noise."""
    factor = np.linalg.cholesky(gram)
    z = np.linspace(-9, 9, 1801)
    weight = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    base = sigma * np.stack(np.broadcast_arrays(factor[0, 0] * z[:, None], factor[1, 0] * z[:, None] + factor[1, 1] * z))
    weights = weight[:, None] * weight

    def loss(v):
        terms = [np.exp((2 * v[j] - gram[j, j]) / (2 * sigma**2)) for j in (0, 1)]
        return np.log((terms[0] + terms[1]) / 2)

    remove = np.mean([
        np.sum(weights * np.maximum(0, -np.expm1(epsilon - loss(base + gram[i][:, None, None])))) for i in (0, 1)
    ])
    return remove, np.sum(weights * np.maximum(0, -np.expm1(epsilon + loss(base))))


@pytest.mark.parametrize(
    "column, epochs, sigma, delta", [([1.0], 1, 0.8, 1e-4), ([1.0], 1, 1.5, 1e-6), ([1.0, 0.5], 2, 2.0, 1e-5)]
)
def test_balls_in_two_bins_by_integration(tmp_path, column, epochs, sigma, delta):
    n = 2 * epochs
    if column == [1.0]:
        mechanism = {"name": "identity"}
    else:
        mechanism = {"name": "band-toeplitz", "coefficients": column}
    spec = plan(mechanism, n, max_participations=epochs, noise_multiplier=sigma)
    said = rustle(
        "account", "balls-in-bins", "--plan", write_plan(tmp_path, spec), "--batches-per-epoch", 2,
        "--epochs", epochs, "--delta", delta, "--samples", 1 << 18, "--seed", 11,
    )  # fmt: skip
    c = sum(np.diag([float(entry)] * (n - i), -i) for i, entry in enumerate(column))
    moved = np.stack([c[:, i::2].sum(axis=1) for i in (0, 1)])
    true = max(two_batches(moved @ moved.T, sigma, said["epsilon"]))
    assert true == pytest.approx(delta, rel=0.03)
    assert abs(said["delta_estimate"] - true) < 5 * said["standard_error"]
    assert said["standard_error"] < 0.02 * delta and said["delta_upper_bound"] > true


def test_more_of_anything_costs_more():
    here = poisson(1.0, 0.02, 100)
    assert poisson(1.1, 0.02, 100) < here < poisson(1.0, 0.022, 100)
    assert here < poisson(1.0, 0.02, 110) and here < poisson(1.0, 0.02, 100, DELTA / 3)
    assert here < poisson(1.0, 0.02, 100, DELTA, "--neighbouring", "replace")
    # A larger group costs more than its share of records.
    groups = [user_level(4.0, 0.02, group, 100) for group in (1, 2, 4, 8)]
    assert all(more > 2 * less for less, more in zip(groups, groups[1:]))


def test_replacing_is_twice_the_sensitivity():
    """A peer's Rényi accountant gives one figure for all relations."""
    words = ["--sensitivity", 1, "--delta", DELTA]
    once = rustle("account", "gaussian", *words, "--noise-multiplier", 1)["epsilon"]
    twice = rustle("account", "gaussian", *words, "--noise-multiplier", 2, "--neighbouring", "replace")["epsilon"]
    assert once == twice


def test_rounds_are_counted():
    """A peer's Rényi accountant leaves the count of one mechanism out."""
    one, hundred = poisson(4.0, 0.5, 1), poisson(4.0, 0.5, 100)
    assert hundred > 5 * one
    assert poisson(4.0, 0.5, 100) > poisson(4.0, 0.5, 99)


@pytest.mark.parametrize("epsilon", [1e-4, 30.0])
def test_calibration_reaches_its_goal_at_both_ends(epsilon):
    """A peer runs out of memory where a search passes very little noise."""
    said = rustle(
        "calibrate", "poisson", "--epsilon", epsilon, "--delta", DELTA, "--sampling-probability", 0.05,
        "--iterations", 50,
    )
    assert 0.995 * epsilon < poisson(said["noise_multiplier"], 0.05, 50) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    "words",
    [
        ["poisson", "--noise-multiplier", "0", "--sampling-probability", "0.1", "--iterations", "5", "--delta", "1e-6"],
        ["poisson", "--noise-multiplier", "1", "--sampling-probability", "1.5", "--iterations", "5", "--delta", "1e-6"],
        ["gaussian", "--noise-multiplier", "0", "--sensitivity", "1", "--delta", "1e-6"],
        ["gaussian", "--noise-multiplier", "1", "--sensitivity", "1", "--delta", "0"],
        ["user-level", "--noise-multiplier", "1", "--sampling-probability", "0.1", "--iterations", "5",
         "--group-size", "0", "--delta", "1e-6"],
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(words):
    done = subprocess.run([str(BINARY), "account", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "allowed" in done.stderr, done.stderr
