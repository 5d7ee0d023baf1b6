"""Derives the tables and polynomials of approximate normals on a grid (noise-kernel/src/grid/tables.rs), and prints that file's constants.

Polynomials meet their functions in Chebyshev's points and are rounded to binary64. Needs mpmath.
"""

from mpmath import cos, floor, log, log1p, lu_solve, matrix, mp, mpf, pi, sin, sqrt


def fit(target, count, lo, hi):
    """The polynomial of `count` coefficients that is the target in Chebyshev's points."""
    points = [(lo + hi) / 2 + (hi - lo) / 2 * cos((2 * i + 1) * pi / (2 * count)) for i in range(count)]
    return list(lu_solve(matrix([[x**k for k in range(count)] for x in points]), matrix([target(x) for x in points])))


def show(name, values):
    print(f"pub(crate) const {name}: [f64; {len(values)}] = [")
    for x in values:
        text = repr(float(x))
        print(f"    {text},")
    print("];")


def polynomial(c, x):
    return sum(mpf(float(a)) * x**i for i, a in enumerate(c))


def worst(f, lo, hi):
    return max(abs(f(lo + (hi - lo) * i / 4001)) for i in range(1, 4001))


if __name__ == "__main__":
    mp.prec = 160
    inverse = [floor(2**26 / (1 + (mpf(i) + mpf(1) / 2) / 16)) / 2**26 for i in range(15)] + [mpf(1) / 2]
    show("INVERSE", inverse)
    show("TWICE_LOG", [2 * log(2 * c) for c in inverse])
    width = max(max(abs((1 + mpf(i + j) / 16) * c - 1) for j in (0, 1)) for i, c in enumerate(inverse))
    target = lambda f: -2 * (log1p(f) - f) / f**2 if f else mpf(1)
    log_c = fit(target, 8, -width, width)
    show("LOG", log_c[::-1])
    error = worst(lambda f: f * (polynomial(log_c, f) - target(f)) / 2, -width, width)
    print("// |f| to", float(width), "; logarithm, relative to f: 2 to the", float(log(error, 2)))

    end = (pi / 16) ** 2
    target_s = lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z if z > mpf(10) ** -12 else -mpf(1) / 6
    sin_c = fit(target_s, 4, mpf(0), end)
    show("SINE", sin_c[::-1])
    error = worst(lambda z: sqrt(z) * z * (polynomial(sin_c, z) - target_s(z)), mpf(0), end)
    print("// sine: 2 to the", float(log(error, 2)))
    target_c = lambda z: (cos(sqrt(z)) - 1) / z if z > mpf(10) ** -12 else -mpf(1) / 2
    cos_c = fit(target_c, 5, mpf(0), end)
    show("COSINE", cos_c[::-1])
    error = worst(lambda z: z * (polynomial(cos_c, z) - target_c(z)), mpf(0), end)
    print("// cosine: 2 to the", float(log(error, 2)))
    show("COSINES", [cos((2 * i + 1) * pi / 16) for i in range(16)])
    show("SINES", [sin((2 * i + 1) * pi / 16) for i in range(16)])
