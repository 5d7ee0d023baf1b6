"""The program under test, and the plans it is given."""

import hashlib
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("RUSTLE_BIN", ROOT / "target" / "release" / "rustle"))
LONG = bool(os.environ.get("RUSTLE_LONG"))

KEY = bytes(range(32))
# Every vector is a part of one of this many coordinates, which its noise depends on.
DIMENSION = 1 << 40
# A nonce as a ledger draws one; alone it is the noise id of a job that never rewound.
NONCE = "11" * 32


def rustle(*words):
    """What `rustle … --format json` answers."""
    command = [str(BINARY), *map(str, words), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise AssertionError(f"status {done.returncode} from {' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def plan(mechanism, iterations, *, min_sep=1, max_participations=1, noise_multiplier=1.0, clip_norm=1.0, rounds=20):
    """A plan as nested dictionaries, in the words of plan.toml."""
    return {
        "format": 1,
        "stream_version": 3,
        "chacha_rounds": rounds,
        "iterations": iterations,
        "noise_multiplier": float(noise_multiplier),
        "clip_norm": float(clip_norm),
        "participation": {"min_sep": min_sep, "max_participations": max_participations},
        "mechanism": mechanism,
    }


def write_plan(folder, spec):
    """`spec` as plan.toml in `folder`."""
    plain, tables = [], []
    for key, value in spec.items():
        if isinstance(value, dict):
            tables += [f"[{key}]"] + [f"{k} = {_toml(v)}" for k, v in value.items()]
        else:
            plain.append(f"{key} = {_toml(value)}")
    path = folder / "plan.toml"
    path.write_text("\n".join(plain + tables) + "\n")
    return path


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def plan_digest(spec):
    """SHA-256 of the plan's canonical form: the title, then `key=value` lines sorted by key."""
    fields = dict(_flat(spec))
    if spec["mechanism"]["name"] == "tree":
        fields.setdefault("mechanism.restarts", [])
        fields.setdefault("mechanism.completion", False)
    if spec["mechanism"]["name"] == "band-toeplitz":
        fields.setdefault("mechanism.column_normalised", False)
    return _digest("rustle plan 1", fields)


def layout_digest(dimension):
    """Of a plan without a layout: the dimension's alone."""
    return _digest("rustle layout 1", {"dimension": dimension, "names": [], "shapes": []})


def _digest(title, fields):
    lines = [f"{key}={_canonical(fields[key])}" for key in sorted(fields)]
    return hashlib.sha256("\n".join([title, *lines, ""]).encode()).digest()


def _flat(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _canonical(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return str(value)


def noise(folder, spec, steps, coordinates, *, iid=False, key=KEY, noise_id=NONCE, dimension=DIMENSION):
    """Rows a..b of coordinates c..d as `rustle noise` makes them, float32. ``noise_id=None``: new noise."""
    key_file = folder / "key"
    if not key_file.exists():
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        key_file.chmod(0o400)
    out = folder / "rows.npy"
    words = ["noise", "--plan", write_plan(folder, spec), "--key-file", key_file, "--out", out]
    words += ["--dimension", dimension, "--range", f"{coordinates[0]}..{coordinates[1]}"]
    words += ["--steps", f"{steps[0]}..{steps[1]}"] + ["--iid"] * iid
    words += ["--noise-id", noise_id] * (noise_id is not None)
    answer = rustle(*words)
    assert noise_id in (None, answer["noise_id"])
    rows = np.load(out)
    assert rows.dtype == np.dtype("<f4") and rows.shape[1] == coordinates[1] - coordinates[0]
    return rows
