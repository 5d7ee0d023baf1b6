"""DeepSpeed without ZeRO, one process: noise of the optimizer that it steps. What ZeRO flattens is refused."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import deepspeed, numpy as np, torch
from conftest import rows
from misuse import SIZE, STEPS, Training, planned
from rustle import errors

folder = Path(sys.argv[2])

def begun(name, stage=0, accumulated=1):
    planned(folder / name, dimension=39)
    t = Training(folder / name)
    settings = {"train_batch_size": SIZE * accumulated, "gradient_accumulation_steps": accumulated}
    settings |= {"zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    t.engine, *_ = deepspeed.initialize(model=t.net, optimizer=t.optimizer, config=settings)
    return t

def flat(t):
    return np.concatenate([p.detach().numpy().reshape(-1).copy() for p in t.net.parameters()])

with __import__("rustle").connect(f"inproc://{planned(folder / 'twin', dimension=39)}") as twin:
    noise = rows(twin, STEPS)
t = begun("run")
for step, ids in enumerate(t.rounds):
    t.gradients(ids)
    sum = np.concatenate([p.grad.numpy().reshape(-1).copy() for p in t.net.parameters()])
    before = flat(t)
    t.engine.step()
    assert np.allclose(before - flat(t), 0.1 * (sum + noise[step] / SIZE), atol=1e-5), step
assert t.session.next_step == STEPS

def refused(t, kind, word):
    try:
        for ids in t.rounds:
            t.engine.backward(0.01 * t.loss(t.engine, t.x[ids], t.y[ids]))
            t.engine.step()
    except kind as error:
        assert word in str(error) and t.session.next_step == 0, str(error)
    else:
        raise AssertionError("nothing was refused")

refused(begun("accumulated", accumulated=2), errors.StepError, "met no noise")
refused(begun("zero", stage=1), errors.LayoutMismatch, "no noise")
"""


def test_deepspeed(tmp_path):
    """DeepSpeed compiles an operator of its own at its first use."""
    for package in ("torch", "deepspeed"):
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    one = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    environment = {**os.environ, **one, "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
