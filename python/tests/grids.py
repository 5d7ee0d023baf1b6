"""Runs on a grid whose rows a test gets from the program."""

import json
import subprocess

import numpy as np
import pytest

import rustle
from conftest import BINARY, write_key


def opened(folder, plan):
    """A session with an engine of its own, whose ledger no other folder shares."""
    plan.save(folder / "plan.toml")
    key = write_key(folder.parent / "job.key")
    return rustle.connect(f"inproc://{folder}?key_file={key}")


def coarse(plan):
    """The plan with steps so large that float32 keeps each of them in a noised sum."""
    step = plan.grid["step"]
    found = rustle.Plan.from_toml(plan.to_toml().replace(f"step = {step}", f"step = {step + 13}"))
    assert found.grid["step"] == step + 13
    return found


def rows_of(session, folder, steps):
    """The rows of the session's job, int32, as ``rustle noise`` makes them."""
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    noise_id, out = json.loads(session._native.report())["noise_id"], folder.parent / f"{folder.name}.npy"
    words = ["noise", "--plan", folder / "plan.toml", "--key-file", folder.parent / "job.key"]
    words += ["--noise-id", noise_id, "--steps", f"0..{steps}", "--out", out]
    subprocess.run([str(BINARY), *map(str, words)], check=True, capture_output=True)
    rows = np.load(out)
    assert rows.dtype == np.int32
    return rows


def released(sums, row, plan, divide_by=1.0):
    """What a rounded sum with a row is, by the plainest arithmetic."""
    step = 2.0 ** plan.grid["step"]
    return ((np.rint(sums.astype(np.float64) * divide_by / step) + row) * step / divide_by).astype(np.float32)
