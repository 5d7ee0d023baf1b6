"""Noise stream version 3, re-implemented from docs/noise-stream.md with Python's standard library alone.

Prints the test vectors of sections 8 and 12; tests/golden.rs freezes them. Section numbers are those of the document.
A binary32 operation is done in binary64 and rounded once more, which gives the same bits for + − × and √; a fused
multiply-add is done in exact fractions.
"""

import hashlib
import hmac
import math
import struct
from fractions import Fraction
from functools import cache

MASK = 0xFFFFFFFF


def r(x):
    """Round to binary32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def fma(a, b, c):
    """a·b + c, rounded once to binary32."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    near = r(float(exact))
    # Rounding to binary64 on the way may have crossed a tie: of the three values about it the nearest is meant.
    around = {near} | {from_bits(bits(near) + step) for step in (-1, 1) if near and bits(near) + step & MASK}
    return min(around, key=lambda x: (abs(Fraction(x) - exact), bits(x) & 1))


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(n):
    return struct.unpack("<f", struct.pack("<I", n))[0]


# 1. Keys


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def add(a, b):
    """The sum of two points of edwards25519, as (x, y)."""
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def ed25519_public(seed):
    """RFC 8032, section 5.1.5."""
    base = 15112221349535400772501151409588531511454012693041857206046113283949847762202, 4 * pow(5, -1, P) % P
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little") & (2**254 - 8) | 2**254
    point = 0, 1
    for bit in range(254, -1, -1):
        point = add(point, point)
        if scalar >> bit & 1:
            point = add(point, base)
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def commitment(job_key):
    extracted = hmac.digest(b"rustle key-possession v2", job_key, "sha256")
    return ed25519_public(hmac.digest(extracted, b"ed25519\x01", "sha256"))


def branch_key(job_key, job_nonce, branch_nonce, plan_digest, dimension, layout_digest):
    info = b"branch" + job_nonce + branch_nonce + plan_digest + struct.pack("<Q", dimension) + layout_digest
    extracted = hmac.digest(b"rustle noise-stream v3", job_key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


# 2. Keystream


def chacha(key, stream, counter, rounds):
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key)]
    start += [counter & MASK, counter >> 32, stream & MASK, stream >> 32]
    x = list(start)

    def quarter(a, b, c, d):
        for first, second, turn in ((b, d, 16), (d, b, 12), (b, d, 8), (d, b, 7)):
            into = a if first == b else c
            x[into] = (x[into] + x[first]) & MASK
            mixed = x[second] ^ x[into]
            x[second] = (mixed << turn | mixed >> (32 - turn)) & MASK

    for _ in range(rounds // 2):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & MASK for a, b in zip(x, start)]


# 4. Gaussian transform

P = [from_bits(n) for n in (0x3EAAAAA4, 0xBE800003, 0x3E4CD25B, 0xBE2AAE26, 0x3E119BB5, 0xBDFE110C, 0x3DF37833,
                            0xBDEF1DD8, 0x3D8A2B9B)]
S = [from_bits(n) for n in (0xBE2AAAA3, 0x3C08839D, 0xB94CA1F1)]
K = [from_bits(n) for n in (0x3D2AAAA5, 0xBAB6061A, 0x37CCF5CE)]
LN2_HIGH, LN2_LOW, ANGLE_STEP = from_bits(0x3F318000), from_bits(0xB95E8083), from_bits(0x30490FDB)


def horner(coefficients, x):
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = fma(value, x, c)
    return value


def pair(a, extension, c):
    top = a >> 31
    a ^= MASK if top else 0
    if a >= 1 << 20:
        w = r(r(a) + 0.5) * 2.0**-32
    else:
        e = extension() ^ (MASK if top else 0)
        w = r(r(r(a) * 2.0**32 + r(e)) + 0.5) * 2.0**-64
    u = r(1 - w) if top else w
    shifted = bits(u) + 0x3F800000 - 0x3F3504F3
    k = (shifted >> 23) - 127
    m = from_bits((shifted & 0x7FFFFF) + 0x3F3504F3)
    f = r(m - 1) if not top else -w if k == 0 else r(1 - 2 * w)
    f2 = r(f * f)
    y = r(r(f2 * f) * horner(P, f))
    y = fma(k, LN2_LOW, y)
    y = fma(-0.5, f2, y)
    y = fma(k, LN2_HIGH, r(y + f))
    radius = r(math.sqrt(r(-2 * y)))

    low = c & 0x3FFFFFFF
    steps = low - (1 << 30) if low >= 1 << 29 else low
    y = r(r(2 * steps + 1) * ANGLE_STEP)
    s = r(y * y)
    sine = fma(r(y * s), horner(S, s), y)
    cosine = fma(r(s * s), horner(K, s), fma(-0.5, s, 1.0))
    quadrant = ((c + 0x20000000) & MASK) >> 30
    cosine, sine = [(cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine)][quadrant]
    return r(radius * cosine), r(radius * sine)


# 3. Blocks


@cache
def block(key, stream, number, rounds=20):
    words = [chacha(key, stream, 32 * number + i, rounds) for i in range(32)]
    values = [0.0] * 512
    for p in range(16):
        for lane in range(16):
            a, c = words[16 * (p // 8) + lane][2 * (p % 8) :][:2]
            extension = lambda: chacha(key, stream, (1 << 63) + 16 * number + p, rounds)[lane]
            values[32 * p + lane], values[32 * p + 16 + lane] = pair(a, extension, c)
    return values


def iid(key, stream, start, end, rounds=20):
    return [block(key, stream, i // 512, rounds)[i % 512] for i in range(start, end)]


# 5 to 7. Rows: each function takes z(stream), one coordinate's normals, and gives that coordinate's rows


def blt(theta, omega, n, output_scale=lambda t: 1.0):
    def rows(z):
        s = [0.0] * len(theta)
        for t in range(n):
            row = z(t)
            for j in range(0, len(s), 2):
                row = fma(-omega[j], s[j], row)
            if len(s) > 1:
                odd = r(-omega[1] * s[1])
                for j in range(3, len(s), 2):
                    odd = fma(-omega[j], s[j], odd)
                row = r(row + odd)
            s = [fma(theta[j], s[j], row) for j in range(len(s))]
            yield r(row * output_scale(t))

    return rows


def cut_sum(sources, weight, value):
    total = partial = 0.0
    for h in sources:
        partial = fma(weight(h), value(h), partial)
        if h % 32 == 31:
            total, partial = r(total + partial), 0.0
    return total, partial


def banded(bands, lag, inverse_diagonal, output_scale, n):
    def rows(z):
        y = []
        for t in range(n):
            total, partial = cut_sum(range(max(0, t - bands + 1), t), lambda h: lag(t, t - h), lambda h: y[h])
            y.append(r(r(r(z(t) - total) - partial) * inverse_diagonal(t)))
            yield r(y[t] * output_scale(t))

    return rows


def inverse(reach, weight, n):
    def rows(z):
        for t in range(n):
            yield r(sum(cut_sum(range(max(0, t - reach), t + 1), lambda h: weight(t, t - h), z)))

    return rows


def tree(segments):
    def rows(z):
        node = 0
        for count, virtual in segments:
            estimates = {}
            for leaf in range(count + virtual):
                if leaf < count:
                    last = leaf == count - 1 and virtual > 0
                    levels = [l for l in range(64) if leaf >> l & 1]
                    if not last:  # only the trailing ones
                        levels = [l for l in levels if leaf & ((2 << l) - 1) == (2 << l) - 1]
                    before = 0.0
                    for l in levels:
                        before = r(before + estimates[l])
                carry, level = z(node), 0
                node += 1
                while leaf >> level & 1:
                    level += 1
                    v = 2.0**level / (2.0 ** (level + 1) - 1)
                    both = r(estimates[level - 1] + carry)
                    carry = fma(r(v), z(node), r(r(1 - v) * both))
                    node += 1
                estimates[level] = carry
                if leaf < count and not last:
                    yield r(carry - before)
            if virtual:
                yield r(carry - before)

    return rows


def digest(key, rows, later=None):
    """SHA-256 of all rows over coordinates 100..1300, row after row, scale 1.5.

    later: the first stream that has another key, and that key (section 12)."""
    key_of = lambda stream: later[1] if later and stream >= later[0] else key
    columns = []
    for i in range(100, 1300):
        z = lambda stream: block(key_of(stream), stream, i // 512)[i % 512]
        columns.append([r(row * 1.5) for row in rows(z)])
    return hashlib.sha256(b"".join(struct.pack("<f", v) for row in zip(*columns) for v in row)).hexdigest()


def main():
    job_key = bytes(range(32))
    context = (b"\x5a" * 32, 1300, b"\xa5" * 32)
    print("derived", branch_key(job_key, b"\x11" * 32, b"\x22" * 32, *context).hex())
    # The keys of the other vectors, which stand for themselves.
    key = bytes.fromhex("31cc913d4a03407cc1b5b17f6260feb01adb4134e9b04c2be95e0fe53cf4f3f3")
    show = lambda *a, **k: " ".join(f"{bits(v):08x}" for v in iid(key, *a, **k))
    print("commitment", commitment(job_key).hex())
    print("branch", key.hex())
    print("words", " ".join(f"{w:08x}" for w in chacha(key, 7, 32 * 5, 20)[:4]))
    print("n0", show(0, 0, 4))
    print("n1", show(0, 14, 18))
    print("n2", show(7, 2560, 2564))
    print("n3", show(7, 494, 498))
    print("n4", show((1 << 40) + 1, 1 << 45, (1 << 45) + 4))
    print("n6", show(0, 484, 488))  # the first of these needs its extension word, from below
    print("n7", show(0, 4620, 4624))  # and the second of these, from above
    print("n5", show(0, 0, 4, rounds=12))
    one = lambda *_: 1.0
    band = [0.5, 0.375]
    toeplitz = lambda t, i: band[i - 1]
    print("identity", digest(key, inverse(0, one, 3)))
    four = ([0.875, 0.5, 0.25, 0.125], [0.25, 0.125, 0.0625, 0.03125], 8)
    print("blt", digest(key, blt(*four)))
    print("blt scaled", digest(key, blt(*four, lambda t: 1 + t / 64)))
    print("banded", digest(key, banded(3, toeplitz, one, one, 40)))
    print("scaled", digest(key, banded(3, toeplitz, one, lambda t: 1 + t / 64, 40)))
    print("perrow", digest(key, banded(2, lambda t, i: 0.5 + t / 128, lambda t: 0.75, one, 8)))
    print("inverse", digest(key, inverse(2, lambda t, i: [1.0, -0.5, -0.125][i], 40)))
    print("dense", digest(key, inverse(4, lambda t, i: 0.5**i, 5)))
    print("tree", digest(key, tree([(5, 3), (6, 0)])))
    # Rewound to row 2, before which a tree completes 3 nodes.
    next_key = bytes.fromhex("9e2af2d53da639278eb2500af3e5a4a54228d157d863256ad140e97c8644f231")
    print("lineage identity", digest(key, inverse(0, one, 3), (2, next_key)))
    wide = blt(*four)
    print("lineage blt", digest(key, wide, (2, next_key)))
    print("lineage tree", digest(key, tree([(5, 3), (6, 0)]), (3, next_key)))


if __name__ == "__main__":
    main()
