"""A training program that comes back, for the tests: train.py FOLDER STEPS. Its gradients are zero, so that its model is
the sum of the rows. It saves when a signal stops it, and at the end.

The module under test is loaded from its file, so that no package has to be installed.
"""

import importlib.util
import json
import os
import pathlib
import signal
import sys
import time

import numpy as np
from mpi4py import MPI

signals = []
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, frame: signals.append(number))


def load():
    path = pathlib.Path(__file__).parents[3] / "python" / "rustle" / "mpi.py"
    spec = importlib.util.spec_from_file_location("rustle_mpi", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def replace(path, data):
    """Whole or not at all."""
    path.with_suffix(".new").write_bytes(data)
    os.replace(path.with_suffix(".new"), path)


def main(folder, steps):
    mpi = load()
    noise = mpi.join()
    step, model = 0, np.zeros(noise.dimension, np.float32)
    if (folder / "saved.json").exists():
        step = json.loads((folder / "saved.json").read_text())["step"]
        model = np.fromfile(folder / "model.f32", np.float32)
    # All ranks stop at the same step, whenever each of them got the signal.
    while step < steps and not noise.training.allreduce(len(signals)):
        time.sleep(0.05)
        model += noise.fetch(step, 0, noise.dimension, mpi.declared(f"step {step}".encode()))
        step += 1
        if noise.training.rank == 0:
            replace(folder / "step", str(step).encode())
    noise.training.barrier()
    if noise.training.rank == 0:
        # A crash between the two is no matter to the tests, which kill elsewhere.
        replace(folder / "model.f32", model.tobytes())
        replace(folder / "saved.json", json.dumps({"step": step}).encode())
    noise.close()


main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
