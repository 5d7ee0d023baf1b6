"""`rustle noise --iid` against stream.py, bit for bit."""

import mpmath
import numpy as np
import pytest
import stream
from rustle import DIMENSION, KEY, LONG, NONCE, layout_digest, noise, plan, plan_digest, rustle

IDENTITY = {"name": "identity"}


def same_bits(ours, theirs):
    return np.array_equal(np.asarray(ours).view(np.uint32), np.asarray(theirs).view(np.uint32))


def branch_key(spec, *, job=NONCE, branch=None, dimension=DIMENSION):
    """The key of a branch; without ``branch`` of branch 0, whose nonce is the job's."""
    job_nonce = bytes.fromhex(job)
    branch_nonce = job_nonce if branch is None else bytes.fromhex(branch)
    return stream.branch_key(KEY, job_nonce, branch_nonce, plan_digest(spec), dimension, layout_digest(dimension))


def test_chacha_is_rfc_8439s():
    # Its nonce 00000009 0000004a 00000000 and counter 1 are, in 64-bit terms, a counter of 1 + 9·2³².
    words = stream.chacha(bytes(range(32)), 20, 0x4A000000, np.array([1 + (0x09000000 << 32)], np.uint64))
    assert words.astype("<u4").tobytes().hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4")


@pytest.mark.parametrize("rounds", [12, 20])
@pytest.mark.parametrize("job, dimension", [(NONCE, 5000), (bytes(range(32)).hex(), 2**63 - 1)])
def test_any_job_and_dimension(tmp_path, rounds, job, dimension):
    spec = plan(IDENTITY, 50, noise_multiplier=1.25, clip_norm=0.3, rounds=rounds)
    key = branch_key(spec, job=job, dimension=dimension)
    theirs = noise(tmp_path, spec, (7, 12), (300, 5000), iid=True, noise_id=job, dimension=dimension)
    ours = [stream.normals(key, rounds, t, 300, 5000) for t in range(7, 12)]
    assert same_bits(ours, theirs)


def test_a_rewound_job(tmp_path):
    spec, other = plan(IDENTITY, 50), "22" * 32
    keys = [branch_key(spec), branch_key(spec, branch=other)]
    ours = [stream.normals(keys[t >= 9], 20, t, 300, 5000) for t in range(7, 12)]
    lineage = f"{NONCE}/0..9=0:{NONCE},9..=3:{other}"
    assert same_bits(ours, noise(tmp_path, spec, (7, 12), (300, 5000), iid=True, noise_id=lineage))
    # Rewound to its first row: the job's nonce stays in the derivation.
    ours = [stream.normals(keys[1], 20, t, 300, 5000) for t in range(7, 12)]
    from_0 = f"{NONCE}/0..=1:{other}"
    assert same_bits(ours, noise(tmp_path, spec, (7, 12), (300, 5000), iid=True, noise_id=from_0))


def test_noise_without_an_id_is_new_each_time(tmp_path):
    spec = plan(IDENTITY, 3)
    rows = [noise(tmp_path, spec, (0, 1), (0, 1000), iid=True, noise_id=given) for given in (None, None, NONCE)]
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        assert (rows[one] != rows[other]).mean() > 0.99


@pytest.mark.parametrize("start, end", [(0, 1), (511, 513), (1023, 1024), (0, 1 << 16)])
def test_any_range(tmp_path, start, end):
    spec = plan(IDENTITY, 3)
    key = branch_key(spec)
    theirs = noise(tmp_path, spec, (2, 3), (start, end), iid=True)
    assert same_bits([stream.normals(key, 20, 2, start, end)], theirs)


def test_where_counters_outgrow_32_bits(tmp_path):
    spec = plan(IDENTITY, 3)
    key = branch_key(spec)
    # Noise block n begins at ChaCha block 32·n.
    start = (2**32 // 32) * 512 - 700
    theirs = noise(tmp_path, spec, (0, 1), (start, start + 2000), iid=True)
    assert same_bits([stream.normals(key, 20, 0, start, start + 2000)], theirs)


def test_identity_rows_are_scaled_normals(tmp_path):
    spec = plan(IDENTITY, 4, noise_multiplier=3.7, clip_norm=0.9)
    key = branch_key(spec)
    ours = [stream.normals(key, 20, t, 0, 1000) * np.float32(3.7 * 0.9) for t in range(4)]
    assert same_bits(ours, noise(tmp_path, spec, (0, 4), (0, 1000)))


def test_tree_nodes_are_streams(tmp_path):
    spec = plan({"name": "tree", "restarts": [5], "completion": True}, 9)
    key = branch_key(spec)
    theirs = noise(tmp_path, spec, (0, 9), (0, 600), iid=True)
    # Five leaves filled to eight complete 15 nodes, four leaves 7.
    assert theirs.shape == (22, 600)
    assert same_bits([stream.normals(key, 20, node, 0, 600) for node in range(22)], theirs)


def test_the_plan_digest_is_the_canonical_forms():
    answer = rustle(
        "plan", "from", "--float", "--mechanism", "blt", "--theta", "0.9,0.25", "--omega", "0.1,0.2", "--iterations", 40,
        "--min-sep", 4, "--max-participations", 3, "--noise-multiplier", 1.5, "--clip-norm", 0.1,
    )  # fmt: skip
    blt = {"name": "blt", "theta": [0.9, 0.25], "omega": [0.1, 0.2]}
    spec = plan(blt, 40, min_sep=4, max_participations=3, noise_multiplier=1.5, clip_norm=0.1)
    assert answer["plan_digest"] == plan_digest(spec).hex()


def test_the_transform_is_box_muller():
    """Against 50 digits: within 2 ulp of the magnitude, over all sizes of u and both edges."""
    rng = np.random.default_rng(1)
    count = 20_000 if LONG else 400
    a = (rng.integers(0, 2**32, count, np.uint64) >> rng.integers(0, 32, count, np.uint64)).astype(np.uint32)
    a[::2] = ~a[::2]
    b, c = rng.integers(0, 2**32, (2, count), np.uint32)
    a[:4], b[:4] = [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000], [0, 0xFFFFFFFF, 0xFFFFFFFF, 0]
    c[:8] = [0, 0xFFFFFFFF, 1 << 29, (1 << 29) - 1, 1 << 30, 1 << 31, 3 << 29, 3 << 30]
    a[4:8] = [1 << 20, (1 << 20) - 1, 0xFFFFFFFF - (1 << 20), 0xFFFFFFFF - (1 << 20) + 1]
    radius = np.sqrt(np.float32(-2) * stream.log(a, b))
    fine = stream.folded(a)[0] >= 1 << 20
    cosine, sine = stream.cos_sin(c)
    with mpmath.workdps(50):
        for i in range(count):
            bits = int(a[i]) << 32 | (1 << 31 if fine[i] else int(b[i]))
            u = mpmath.mpf(bits) / 2**64 if fine[i] else (mpmath.mpf(bits) + 0.5) / 2**64
            exact = mpmath.sqrt(-2 * mpmath.log(u))
            angle = 2 * mpmath.pi * (mpmath.mpf(int(c[i])) + 0.5) / 2**32
            # Reading u in float32 costs half an ulp of it, the logarithm, the root and the polynomials the rest.
            assert abs(radius[i] - exact) <= 2 * np.spacing(radius[i])
            assert abs(cosine[i] - mpmath.cos(angle)) <= 1.2e-7
            assert abs(sine[i] - mpmath.sin(angle)) <= 1.2e-7
