"""The noise stream of docs/noise-stream.md, version 3, once more in numpy.

Written to be read beside the specification; every float32 operation is one numpy call, so that each rounds once,
in the order given there.
"""

import hashlib
import hmac
import struct

import numpy as np

BLOCK = 512
U32 = np.uint32
F32 = np.float32


def bits(*patterns):
    """The float32 with these bits."""
    return np.array(patterns, U32).view(F32)


SQRT_HALF_BITS = 0x3F3504F3
LN2_HIGH, LN2_LOW, ANGLE_STEP = bits(0x3F318000, 0xB95E8083, 0x30490FDB)
# Polynomials, highest power first.
LOG = bits(
    0x3D8A2B9B, 0xBDEF1DD8, 0x3DF37833, 0xBDFE110C, 0x3E119BB5, 0xBE2AAE26, 0x3E4CD25B, 0xBE800003, 0x3EAAAAA4
)
SIN = bits(0xB94CA1F1, 0x3C08839D, 0xBE2AAAA3)
COS = bits(0x37CCF5CE, 0xBAB6061A, 0x3D2AAAA5)


def branch_key(job_key, job_nonce, branch_nonce, plan_digest, dimension, layout_digest):
    """HKDF-SHA-256 (RFC 5869), one block of output."""
    info = b"branch" + job_nonce + branch_nonce + plan_digest + struct.pack("<Q", dimension) + layout_digest
    secret = hmac.digest(b"rustle noise-stream v3", job_key, hashlib.sha256)
    return hmac.digest(secret, info + b"\x01", hashlib.sha256)


def chacha(key, rounds, stream, counters):
    """Words of the ChaCha blocks `counters` (uint64): shape (len(counters), 16)."""
    state = np.empty((16, len(counters)), U32)
    state[0:4] = np.frombuffer(b"expand 32-byte k", "<u4")[:, None]
    state[4:12] = np.frombuffer(key, "<u4")[:, None]
    state[12] = counters.astype(U32)
    state[13] = (counters >> np.uint64(32)).astype(U32)
    state[14] = U32(stream & 0xFFFFFFFF)
    state[15] = U32(stream >> 32)
    x = state.copy()
    for _ in range(rounds // 2):
        for a in range(4):
            quarter_round(x, a, 4 + a, 8 + a, 12 + a)
        for a in range(4):
            quarter_round(x, a, 4 + (a + 1) % 4, 8 + (a + 2) % 4, 12 + (a + 3) % 4)
    return (x + state).T


def quarter_round(x, a, b, c, d):
    for to, other, by, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[to] += x[other]
        mixed = x[by] ^ x[to]
        x[by] = (mixed << U32(turn)) | (mixed >> U32(32 - turn))


def fma(a, b, c):
    """a·b + c rounded once. The product is exact in float64, and a sum rounded to odd there rounds to float32 as if it
    had never been rounded before."""
    product, c = np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64)
    total = product + c
    of_c = total - product
    lost = (product - (total - of_c)) + (c - of_c)
    pattern = total.view(np.int64)
    towards = np.where((lost > 0) == (total > 0), 1, -1)
    odd = pattern + np.where((lost != 0) & (pattern & 1 == 0), towards, 0)
    return odd.view(np.float64).astype(F32)


def normals(key, rounds, stream, start, end):
    """The standard normals of coordinates start..end of a stream."""
    first, last = start // BLOCK, (end - 1) // BLOCK
    counters = np.arange(first * 32, (last + 1) * 32, dtype=np.uint64)
    # [noise block, group of 16 ChaCha blocks, lane, word] → [noise block, pair row, a or c, lane]
    words = chacha(key, rounds, stream, counters).reshape(-1, 2, 16, 16)
    words = words.transpose(0, 1, 3, 2).reshape(-1, 16, 2, 16)
    a, c = words[:, :, 0], words[:, :, 1]
    radius = np.sqrt(F32(-2) * log(a, extensions(key, rounds, stream, first, a)))
    cosine, sine = cos_sin(c)
    values = np.stack([radius * cosine, radius * sine], axis=2)  # [block, pair row, cosine or sine, lane]
    return values.reshape(-1)[start - first * BLOCK : end - first * BLOCK]


def folded(a):
    """How far a is from its nearer end, and whether that is the upper one."""
    above = a >= U32(1 << 31)
    return np.where(above, ~a, a), above


def extensions(key, rounds, stream, first, a):
    """The extension words of the pairs that need them, shaped like a; elsewhere 0."""
    words = np.zeros_like(a)
    for block, row in {(block, row) for block, row, _ in np.argwhere(folded(a)[0] < U32(1 << 20))}:
        counter = (1 << 63) + 16 * (first + int(block)) + int(row)
        words[block, row] = chacha(key, rounds, stream, np.array([counter], np.uint64))[0]
    return words


def log(a, extension):
    """ln u, u = (a + ½)·2⁻³² or (2³²a + extension + ½)·2⁻⁶⁴; above ½ by way of w = 1 − u."""
    a, above = folded(a)
    extension = np.where(above, ~extension, extension)
    fine = (a.astype(F32) + F32(0.5)) * F32(2.0**-32)
    refined = ((a.astype(F32) * F32(2.0**32) + extension.astype(F32)) + F32(0.5)) * F32(2.0**-64)
    w = np.where(a < U32(1 << 20), refined, fine)
    u = np.where(above, F32(1) - w, w)

    # u = m·2^k with m in [√½, √2), √½ being the float32 below it.
    shifted = u.view(U32) + U32(0x3F800000 - SQRT_HALF_BITS)
    k = (shifted >> U32(23)).astype(np.int32) - 127
    m = ((shifted & U32(0x007FFFFF)) + U32(SQRT_HALF_BITS)).view(F32)
    # Above ½ u has been rounded, so m − 1 comes from w instead, exactly; k is 0 or −1 there.
    f = np.where(above, np.where(k == 0, -w, F32(1) - (w + w)), m - F32(1))

    p = np.full_like(f, LOG[0])
    for coefficient in LOG[1:]:
        p = fma(p, f, coefficient)
    k = k.astype(F32)
    square = f * f
    y = (square * f) * p
    y = fma(k, LN2_LOW, y)
    y = fma(F32(-0.5), square, y)
    return fma(k, LN2_HIGH, y + f)


def cos_sin(c):
    """Cosine and sine of 2π(c + ½)/2³²: polynomials within π/4 of a multiple of π/2, then quarter turns."""
    quarter = (c + U32(1 << 29)) >> U32(30)
    within = (c - (quarter << U32(30))).view(np.int32)
    y = (2 * within + 1).astype(F32) * ANGLE_STEP
    s = y * y
    sine = fma(y * s, fma(fma(SIN[0], s, SIN[1]), s, SIN[2]), y)
    cosine = fma(s * s, fma(fma(COS[0], s, COS[1]), s, COS[2]), fma(F32(-0.5), s, F32(1)))
    turns = quarter & U32(3)
    return np.choose(turns, [cosine, -sine, -cosine, sine]), np.choose(turns, [sine, cosine, -sine, -cosine])
