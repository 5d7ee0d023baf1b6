"""What `rustle plan` and `rustle account` say, against dense matrices, brute force and dp-accounting."""

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from matrices import Tree, binomial_series, prefix_errors, sensitivity, sensitivity_any_sign, strategy
from rustle import plan, rustle, write_plan
from scipy.optimize import brentq, minimize
from scipy.stats import norm

N, MIN_SEP, PARTICIPATIONS = 14, 3, 4
SHAPE = ["--iterations", N, "--min-sep", MIN_SEP, "--max-participations", PARTICIPATIONS]


def listed(numbers):
    return ",".join(map(repr, map(float, numbers)))


FROM = {
    "identity": [],
    "blt": ["--theta", "0.95,0.5", "--omega", "0.2,0.3"],
    "band-toeplitz": ["--coefficients", "1,0.5,0.25"],
    "band-toeplitz scaled": ["--coefficients", "1,0.5,0.25", "--column-scales", "1,0.8", "--rounds-per-scale", 4],
    "blt scaled": ["--theta", "0.95,0.5", "--omega", "0.2,0.3", "--column-scales", "1,0.8", "--rounds-per-scale", 3],
    "band-sqrt": ["--bands", 3],
    "band-inverse": ["--coefficients", "1,-0.5,-0.1"],
    "band-inverse-sqrt": ["--bands", 5],
    "lambda-cgd": ["--lambda", 0.7],
}


def mechanism_of(answer):
    """The mechanism of an answer, in the words of plan.toml."""
    names = ["theta", "omega", "coefficients", "column_normalised", "columns", "bands", "lambda", "matrix"]
    names += ["column_scales", "rounds_per_scale"]
    return {"name": answer["mechanism"], **{name: answer[name] for name in names if name in answer}}


def check_losses(answer, n, min_sep, participations):
    c = strategy(mechanism_of(answer), n)
    errors = prefix_errors(c)
    assert answer["rms_error"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert answer["max_error"] == pytest.approx(errors.max(), rel=1e-9)
    true = sensitivity(c, min_sep, participations) if (c >= 0).all() else 0.0
    true = max(true, sensitivity_any_sign(c, min_sep, participations))
    # Never below the truth; equal to it where exact is claimed.
    assert answer["sensitivity"] >= true * (1 - 1e-12)
    if answer["sensitivity_exact"]:
        assert answer["sensitivity"] == pytest.approx(true, rel=1e-9)
    assert answer["rms_loss"] == pytest.approx(answer["rms_error"] * answer["sensitivity"], rel=1e-12)
    assert answer["max_loss"] == pytest.approx(answer["max_error"] * answer["sensitivity"], rel=1e-12)


@pytest.mark.parametrize("name", FROM)
def test_losses_of_known_parameters(name):
    mechanism = name.split()[0]
    answer = rustle("plan", "from", "--float", "--mechanism", mechanism, *FROM[name], *SHAPE, "--noise-multiplier", 1)
    check_losses(answer, N, MIN_SEP, PARTICIPATIONS)


@pytest.mark.parametrize("name", ["identity", "blt", "band-toeplitz", "band-sqrt", "band-inverse", "lambda-cgd"])
@pytest.mark.parametrize("loss", ["rms", "max"])
def test_losses_of_what_the_optimiser_finds(name, loss):
    check_losses(rustle("plan", "optimize", "--float", "--mechanism", name, "--loss", loss, *SHAPE), N, MIN_SEP, PARTICIPATIONS)


@pytest.mark.parametrize("loss", ["rms", "max"])
def test_a_column_that_rises_is_no_trap(loss):
    """c = (1, 0, 1) at b = 1, k = 2: the evenly spaced pattern gives √3, the truth is above."""
    answer = rustle(
        "plan", "from", "--float", "--mechanism", "band-toeplitz", "--coefficients", "1,0,1", "--iterations", 8,
        "--min-sep", 1, "--max-participations", 2, "--noise-multiplier", 1,
    )  # fmt: skip
    true = sensitivity(strategy({"name": "band-toeplitz", "coefficients": [1, 0, 1]}, 8), 1, 2)
    assert true > 2.2 and answer["sensitivity"] >= true * (1 - 1e-12)


def test_no_other_bands_are_better():
    """scipy's search over the same five bands finds nothing below what the optimiser found."""
    n, b, k, bands = 60, 6, 5, 5
    shape = ["--iterations", n, "--min-sep", b, "--max-participations", k]
    answer = rustle("plan", "optimize", "--float", "--mechanism", "band-toeplitz", "--bands", bands, *shape)

    def loss(tail):
        c = strategy({"name": "band-toeplitz", "coefficients": [1.0, *tail]}, n)
        return np.sqrt(k) * np.linalg.norm([1.0, *tail]) * np.sqrt(np.mean(prefix_errors(c) ** 2))

    best = minimize(loss, binomial_series(-0.5, bands)[1:], method="L-BFGS-B").fun
    assert answer["rms_loss"] <= best * (1 + 1e-6)


@pytest.mark.parametrize("matrix", ["c", "c-inverse"])
@pytest.mark.parametrize("name", FROM)
def test_coefficients(tmp_path, name, matrix):
    out = tmp_path / "plan.toml"
    base, *scaled = name.split()
    words = ["plan", "from", "--float", "--mechanism", base, *FROM[name], *SHAPE, "--noise-multiplier", 1]
    c = strategy(mechanism_of(rustle(*words, "--out", out)), N)
    c = np.linalg.inv(c) if matrix == "c-inverse" else c
    read = ["plan", "coefficients", "--plan", out, "--matrix", matrix]
    if not scaled:
        column = rustle(*read, "--count", N)["coefficients"]
        assert np.allclose(column, c[:, 0], rtol=0, atol=1e-12)
    row = rustle(*read, "--row", 9)["coefficients"]
    assert np.allclose(row, c[9, :10], rtol=0, atol=1e-12)


TREES = [{}, {"restarts": [5, 9]}, {"restarts": [5, 9], "completion": True}]


@pytest.mark.parametrize("tree", TREES)
def test_trees(tmp_path, tree):
    words = ["--restarts", "5,9"] * ("restarts" in tree) + ["--completion"] * ("completion" in tree)
    answer = rustle("plan", "from", "--float", "--mechanism", "tree", *words, *SHAPE, "--noise-multiplier", 1)
    dense = Tree(N, **tree)
    true = dense.sensitivity(MIN_SEP, PARTICIPATIONS)
    assert answer["sensitivity"] == pytest.approx(true, rel=1e-12)
    errors = np.linalg.norm(dense.prefixes(), axis=1)
    assert answer["rms_error"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert answer["max_error"] == pytest.approx(errors.max(), rel=1e-9)
    said = rustle("account", "tree", "--noise-multiplier", 3, "--delta", 1e-6, *words, *SHAPE)
    assert said["rho"] == pytest.approx(true**2 / 18, rel=1e-12)
    assert said["epsilon"] == pytest.approx(gaussian_epsilon(true / 3, 1e-6), rel=1e-6)


def gaussian_delta(epsilon, mu):
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        ahead = mpmath.ncdf(mu / 2 - epsilon / mu)
        return ahead - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu, delta):
    """By bisection; the upper end is the bound that follows from zCDP, and a little."""
    below, above = 0.0, mu * mu / 2 + mu * np.sqrt(-2 * np.log(delta)) + 1
    while (middle := (below + above) / 2) not in (below, above):
        below, above = (below, middle) if gaussian_delta(middle, mu) < delta else (middle, above)
    return above


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
@pytest.mark.parametrize("sensitivity_, sigma", [(1.0, 0.7), (1.0, 10.0), (4.472135954999579, 16.0)])
def test_gaussian(sensitivity_, sigma, delta):
    said = rustle("account", "gaussian", "--sensitivity", sensitivity_, "--noise-multiplier", sigma, "--delta", delta)
    exact = gaussian_epsilon(sensitivity_ / sigma, delta)
    assert said["epsilon"] == pytest.approx(exact, rel=1e-9)
    assert said["rho"] == pytest.approx(sensitivity_**2 / (2 * sigma**2), rel=1e-12)
    peer = GaussianPrivacyLoss(sigma, sensitivity=sensitivity_)
    assert peer.get_delta_for_epsilon(said["epsilon"]) == pytest.approx(delta, rel=1e-6)
    back = rustle("account", "gaussian", "--sensitivity", sensitivity_, "--noise-multiplier", sigma, "--epsilon", exact)
    assert back["delta"] == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize("epsilon, delta", [(0.1, 1e-10), (1.0, 1e-5), (8.0, 1e-6)])
def test_calibration(epsilon, delta):
    said = rustle("calibrate", "gaussian", "--sensitivity", 2, "--epsilon", epsilon, "--delta", delta)
    sigma = said["noise_multiplier"]
    # Enough noise, and no more than that.
    assert gaussian_delta(epsilon, 2 / sigma) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon, 2 / (sigma * (1 - 1e-6))) > delta
    target = DifferentialPrivacyParameters(epsilon, delta)
    peer = GaussianPrivacyLoss.from_privacy_guarantee(target, sensitivity=2)
    assert sigma == pytest.approx(peer.standard_deviation, rel=1e-5)


@pytest.mark.parametrize("name", ["blt", "band-sqrt", "lambda-cgd"])
def test_zcdp_of_a_plan(tmp_path, name):
    mechanism = {
        "blt": {"name": "blt", "theta": [0.95, 0.5], "omega": [0.2, 0.3]},
        "band-sqrt": {"name": "band-sqrt", "bands": 3},
        "lambda-cgd": {"name": "lambda-cgd", "lambda": 0.7},
    }[name]
    spec = plan(mechanism, N, min_sep=MIN_SEP, max_participations=PARTICIPATIONS, noise_multiplier=4.0)
    said = rustle("account", "zcdp", "--plan", write_plan(tmp_path, spec), "--delta", 1e-6)
    true = sensitivity(strategy(mechanism, N), MIN_SEP, PARTICIPATIONS)
    assert said["rho"] == pytest.approx(true**2 / 32, rel=1e-9)
    assert said["epsilon"] == pytest.approx(gaussian_epsilon(true / 4, 1e-6), rel=1e-9)


@pytest.mark.parametrize("neighbouring, factor", [("zero-out", 1), ("replace", 2)])
def test_report_is_the_exact_gaussian(tmp_path, neighbouring, factor):
    """Every ε of a report against δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) of C's own dense sensitivity."""
    mechanism = {"name": "blt", "theta": [0.95, 0.5], "omega": [0.2, 0.3]}
    spec = plan(mechanism, N, min_sep=MIN_SEP, max_participations=PARTICIPATIONS, noise_multiplier=1.7)
    deltas = [1e-3, 1e-6, 1e-10]
    path = write_plan(tmp_path, spec)
    stated = rustle("report", "--plan", path, "--delta", listed(deltas), "--neighbouring", neighbouring)
    mu = factor * sensitivity(strategy(mechanism, N), MIN_SEP, PARTICIPATIONS) / 1.7
    assert stated["mu"] == pytest.approx(mu, rel=1e-6)
    assert stated["rho"] == pytest.approx(mu**2 / 2, rel=1e-6)
    assert stated["true_positive_rate"] == pytest.approx(norm.cdf(norm.ppf(0.01) + mu), rel=1e-6)
    for delta, said in zip(deltas, stated["guarantees"]):
        def excess(epsilon, delta=delta):
            return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta
        exact = brentq(excess, 0, 50, xtol=1e-12)
        assert said["delta"] == delta
        assert said["epsilon"] == pytest.approx(exact, rel=2e-5) and said["epsilon"] >= exact * (1 - 1e-6)
