"""Grid rows of the noise stream, from docs/grid-stream.md, in whole numbers, fractions and mpmath's numbers of 1,200 bits.

Prints the vectors of section 7; tests/grid/golden.rs freezes them. Section numbers are those of the document. ChaCha is
that of vectors.py beside this file.
"""

import hashlib
import struct
from fractions import Fraction
from functools import cache

import mpmath
from vectors import chacha

mpmath.mp.prec = 1200

KEY = bytes.fromhex("31cc913d4a03407cc1b5b17f6260feb01adb4134e9b04c2be95e0fe53cf4f3f3")
COORDINATES = [0, 1, 2, 3, 16, 17, 511, 512]
DEVIATION = 0.9 * 2.0**24


# 2, 3. Words and normals


def uniforms(key, stream, i, rounds):
    """304 bits of U and of V, as whole numbers."""
    block, j = divmod(i, 512)
    row, lane = divmod(j, 32)[0], j % 16
    own = chacha(key, stream, 32 * block + 16 * (row // 8) + lane, rounds)
    shared = chacha(key, stream, 2**62 + 16 * block + lane, rounds)[row]
    further = chacha(key, stream, 2**63 + 256 * block + 16 * row + lane, rounds)
    u = own[2 * (row % 8)] << 16 | shared >> 16
    v = own[2 * (row % 8) + 1] << 16 | shared & 0xFFFF
    for word in further[:8]:
        u = u << 32 | word
    for word in further[8:]:
        v = v << 32 | word
    return u, v


@cache
def normal(key, stream, i, rounds=20):
    u, v = (mpmath.ldexp(2 * n + 1, -305) for n in uniforms(key, stream, i, rounds))
    part = mpmath.cos if i % 32 < 16 else mpmath.sin
    return mpmath.sqrt(-2 * mpmath.log(u)) * part(2 * mpmath.pi * v)


def rounded(terms, f=0):
    """⌊Σ c·z − f + ½⌋ for pairs of a fraction c and a normal z."""
    total = mpmath.mpf(0)
    for c, z in terms:
        total += mpmath.mpf(c.numerator) / c.denominator * z
    f = Fraction(f) - Fraction(1, 2)
    total -= mpmath.mpf(f.numerator) / f.denominator
    n = int(mpmath.floor(total))
    assert mpmath.ldexp(1, -180) < total - n < 1 - mpmath.ldexp(1, -180)
    return n


# 4. Rows: each family gives the values of one coordinate. `z(t)` is the normal of stream t.


def nearest(x):
    """A fraction rounded once to binary64."""
    return float(Fraction(x))


def identity(z, s, n):
    return [rounded([(Fraction(s(t)), z(t))]) for t in range(n)]


def blt(theta, omega):
    def rows(z, s, n):
        state, values = [0.0] * len(theta), []
        for t in range(n):
            halves = [0.0, 0.0]
            for j, (w, x) in enumerate(zip(omega, state)):
                halves[j % 2] = nearest(Fraction(w) * Fraction(x) + Fraction(halves[j % 2]))
            f = nearest(Fraction(halves[0]) + Fraction(halves[1]))
            values.append(rounded([(Fraction(s(t)), z(t))], f))
            state = [nearest(Fraction(d) * Fraction(x) + values[-1]) for d, x in zip(theta, state)]
        return values

    return rows


def banded(lags):
    def rows(z, s, n):
        values = []
        for t in range(n):
            f = sum(Fraction(c) * n for c, n in zip(lags, reversed(values)))
            values.append(rounded([(Fraction(s(t)), z(t))], f))
        return values

    return rows


def inverse(coefficients):
    def rows(z, s, n):
        terms = lambda t: [(Fraction(s(t)) * Fraction(c), z(t - i)) for i, c in enumerate(coefficients[: t + 1])]
        return [rounded(terms(t)) for t in range(n)]

    return rows


def tree(segments):
    def rows(z, s, n):
        values, node = [], 0
        for real, virtual in segments:
            estimates = {}
            for leaf in range(real + virtual):
                before = dict(estimates)
                carry, level = rounded([(Fraction(s(0)), z(node))]), 0
                node += 1
                while leaf >> level & 1:
                    level += 1
                    own, lower = rounded([(Fraction(s(0)), z(node))]), before[level - 1] + carry
                    node += 1
                    weight = 2.0**level / (2.0 ** (level + 1) - 1)
                    carry = lower + round(nearest(Fraction(weight) * (own - lower)))
                estimates[level] = carry
                if leaf == real - 1 and virtual:
                    served = sum(before[l] for l in range(64) if leaf >> l & 1)
                elif leaf < real:
                    values.append(carry - sum(before[l] for l in range(level)))
            if virtual:
                values.append(carry - served)
        return values[:n]

    return rows


def all_rows(family, n, s=lambda t: DEVIATION, key=lambda stream: KEY, rounds=20):
    columns = [family(lambda t, i=i: normal(key(t), t, i, rounds), s, n) for i in COORDINATES]
    return [list(row) for row in zip(*columns)]


def digest(rows):
    return hashlib.sha256(b"".join(struct.pack("<i", value) for row in rows for value in row)).hexdigest()


THETA, OMEGA = [0.875, 0.5, 0.25, 0.125], [0.25, 0.125, 0.0625, 0.03125]
FAMILIES = {
    "identity": identity,
    "blt": blt(THETA, OMEGA),
    "banded": banded([0.5, 0.375]),
    "inverse": inverse([1, -0.5, -0.125]),
    "tree": tree([(8, 0)]),
}
SECOND = bytes.fromhex("9e2af2d53da639278eb2500af3e5a4a54228d157d863256ad140e97c8644f231")


def main():
    shown = lambda row: " ".join(map(str, row))
    print("z of stream 0:", [mpmath.nstr(normal(KEY, 0, i), 17) for i in COORDINATES])
    for name, family in FAMILIES.items():
        rows = all_rows(family, 8)
        print(f"{name}: {digest(rows)}")
        for t, row in enumerate(rows):
            print(f"  row {t}: {shown(row)}")
    rising = lambda t: DEVIATION * (1 + t / 64)
    trees = tree([(5, 3), (6, 0)])
    from_2 = lambda first: lambda stream: SECOND if stream >= first else KEY
    extra = {
        "identity, 12 rounds": all_rows(identity, 3, rounds=12),
        "blt, s_t = s(1 + t/64)": all_rows(FAMILIES["blt"], 8, rising),
        "banded, s_t = s(1 + t/64)": all_rows(FAMILIES["banded"], 8, rising),
        "inverse, s_t = s(1 + t/64)": all_rows(FAMILIES["inverse"], 8, rising),
        "trees of 5 rows with 3 virtual steps and of 6 rows": all_rows(trees, 11),
        "the same, another key from row 2 on": all_rows(trees, 11, key=from_2(3)),
        "blt, another key from row 2 on": all_rows(FAMILIES["blt"], 8, key=from_2(2)),
    }
    for name, rows in extra.items():
        print(f"{name}: {digest(rows)}")


if __name__ == "__main__":
    main()
