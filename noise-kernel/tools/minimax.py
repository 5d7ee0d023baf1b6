"""Derives the polynomial coefficients of the noise stream (docs/noise-stream.md, section 4).

Weighted Remez exchange in high precision; the coefficients are then rounded to binary32. Needs mpmath. Prints each coefficient as decimal and bits, and
the largest relative error of the formula in exact arithmetic.
"""

import struct
from mpmath import mp, mpf, cos, linspace, log1p, lu_solve, matrix, pi, sin, sqrt

mp.prec = 120


def f32(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def bits(x):
    return struct.unpack("I", struct.pack("f", x))[0]


def remez(target, weight, powers, lo, hi, rounds=12):
    """Coefficients c minimising max |weight·(Σ c_i x^powers_i − target)| on [lo, hi]."""
    n = len(powers)
    points = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * i / n) for i in range(n + 1)]
    grid = linspace(lo, hi, 1501)
    values = [(x, target(x), weight(x)) for x in grid]
    for _ in range(rounds):
        rows = [[x**p for p in powers] + [(-1) ** i / weight(x)] for i, x in enumerate(points)]
        c = list(lu_solve(matrix(rows), matrix([target(x) for x in points])))[:n]
        error = [w * (sum(a * x**p for a, p in zip(c, powers)) - t) for x, t, w in values]
        extrema = []
        for x, e in zip(grid, error):  # the largest error of each run of one sign
            if extrema and (extrema[-1][1] > 0) == (e > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (x, e)
            else:
                extrema.append((x, e))
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < n + 1:
            break
        points = [x for x, _ in extrema]
    return c


def fit(name, target, weight, powers, lo, hi):
    """remez, with coefficients rounded to binary32."""
    fixed = [f32(a) for a in remez(target, weight, powers, lo, hi)]
    worst = max(
        abs(weight(x) * (sum(mpf(a) * x**p for a, p in zip(fixed, powers)) - target(x))) for x in linspace(lo, hi, 4001)
    )
    print(f"{name}: largest relative error {float(worst):.3g} = 2^{float(mp.log(worst, 2)):.2f}")
    for p, a in zip(powers, fixed):
        print(f"  x^{p}: {a!r:>24}  0x{bits(a):08x}")


# An endpoint or zero of the weighted function sits at x = 0 in each case: stay a hair away from it.
eps = mpf(2) ** -20
x0 = lambda x: x if abs(x) > eps else eps

# log1p(f) = f − f²/2 + f³·P(f), relative to log1p(f)
fit(
    "P, log1p",
    lambda f: (log1p(x0(f)) - x0(f) + x0(f) ** 2 / 2) / x0(f) ** 3,
    lambda f: x0(f) ** 3 / log1p(x0(f)),
    list(range(9)),
    sqrt(mpf(1) / 2) - 1,
    sqrt(mpf(2)) - 1,
)
# sin y = y + y³·S(y²), as a polynomial in s = y², relative to sin y
top = (pi / 4) ** 2
fit(
    "S, sin",
    lambda s: (sin(sqrt(x0(s))) / sqrt(x0(s)) - 1) / x0(s),
    lambda s: x0(s) * sqrt(x0(s)) / sin(sqrt(x0(s))),
    list(range(3)),
    mpf(0),
    top,
)
# cos y = 1 − y²/2 + y⁴·K(y²), in s = y², relative to cos y
fit(
    "K, cos",
    lambda s: (cos(sqrt(x0(s))) - 1 + x0(s) / 2) / x0(s) ** 2,
    lambda s: x0(s) ** 2 / cos(sqrt(x0(s))),
    list(range(3)),
    mpf(0),
    top,
)
