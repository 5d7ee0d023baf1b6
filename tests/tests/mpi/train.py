"""A training rank for the tests: what it does is its first argument, its answer one line of JSON by the first of them.

The module under test is loaded from its file, so that no package has to be installed.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import sys
import time

import numpy as np
from mpi4py import MPI


def load():
    path = pathlib.Path(__file__).parents[3] / "python" / "rustle" / "mpi.py"
    spec = importlib.util.spec_from_file_location("rustle_mpi", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def whole(mpi, noise, steps, fetch):
    """SHA-256 of all values of rows 0..steps, each part fetched by `fetch`, in ranges that cross the ranks' borders."""
    digest = hashlib.sha256()
    cuts = [0, 7, 512, noise.dimension // 2 + 1, noise.dimension]
    for row in range(steps):
        commitment = mpi.declared(f"step {row}".encode())
        for start, end in zip(cuts, cuts[1:]):
            digest.update(fetch(row, start, end, commitment).tobytes())
    return digest.hexdigest()


def fetch(mpi, steps):
    """By point to point, in the window, and while something else is computed: all three the same."""
    noise = mpi.join(window_bytes=1 << 20)

    def overlapped(row, start, end, commitment):
        with noise.fetching(row, start, end, commitment) as pending:
            np.linalg.norm(np.arange(10_000.0))
        return pending.values

    ways = [noise.fetch, overlapped, noise.fetch_in_window]
    digests = [whole(mpi, noise, steps, way) for way in ways]
    others = noise.training.allgather(digests)
    if noise.training.rank == 0:  # two lines of two ranks may become one
        print(json.dumps({"sha256": digests[0], "same": all(d == digests[0] for ds in others for d in ds)}))
    noise.close()


def refusals(mpi, steps):
    """What is refused, by the names of the errors; the same commitment gets the same bytes."""
    noise = mpi.join()
    commitment = mpi.declared(b"one")
    first = noise.fetch(0, 0, noise.dimension, commitment)
    refused = []
    for attempt in (
        lambda: noise.fetch(0, 0, noise.dimension, mpi.declared(b"two")),
        lambda: noise.fetch(0, 5, 9, mpi.exact(np.ones(3), secret=bytes(32), row=0)),
        lambda: noise.fetch(0, 0, noise.dimension + 1, commitment),
        lambda: noise.fetch(noise.iterations, 0, 5, commitment),
        lambda: noise.fetch(1, 0, 5, commitment, out=np.empty(4, np.float32)),
        lambda: noise.fetch_in_window(1, 0, 5, commitment),
    ):
        try:
            attempt()
            refused.append("nothing")
        except mpi.Refused as error:
            refused.append(error.kind)
        except ValueError as error:
            refused.append(str(error).split()[0])
    # Past this side's own checks: the noise rank looks too.
    dimension, noise.dimension = noise.dimension, noise.dimension + 512
    shards = noise._shards
    noise._shards = [(rank, (first, last + 512 * (last == dimension))) for rank, (first, last) in shards]
    try:
        noise.fetch(0, dimension - 1, dimension + 1, commitment)
    except mpi.Refused as error:
        refused.append(error.kind)
    noise.dimension, noise._shards = dimension, shards
    same = np.array_equal(first.view(np.uint32), noise.fetch(0, 0, noise.dimension, commitment).view(np.uint32))
    if noise.training.rank == 0:
        print(json.dumps({"refused": refused, "same": bool(same)}))
    noise.close()


def floats_of_a_grid(mpi, steps):
    """Rows of a plan on a grid, requested as floats: refused on this side, and past it by the noise rank."""
    noise = mpi.join(window_bytes=4 * 1300)
    refused, commitment = [], mpi.declared(b"one")
    try:
        noise.fetch(0, 0, noise.dimension, commitment, out=np.empty(noise.dimension, np.float32))
    except ValueError as error:
        refused.append(str(error))
    noise.dtype, noise.window = np.dtype(np.float32), noise.window.view(np.float32)
    requests(mpi, noise, refused, noise.fetch, noise.fetch_in_window)


def integers_of_floats(mpi, steps):
    """Rows of a plan of floats, requested as integers, past this side's check."""
    noise = mpi.join()
    noise.dtype = np.dtype(np.int32)
    requests(mpi, noise, [], noise.fetch)


def requests(mpi, noise, refused, *ways):
    """What the noise rank says of a row by each way, and how many rows are bound after all."""
    for way in ways:
        try:
            way(0, 0, noise.dimension, mpi.declared(b"one"))
        except mpi.Refused as error:
            refused.append(error.kind)
    print(json.dumps({"refused": refused, "bound": noise.place()[2]}))
    noise.close()


def fails(mpi, steps):
    """An exception after some rows, on one rank; the others wait for it."""
    noise = mpi.join()
    for row in range(steps):
        noise.fetch(row, 0, noise.dimension, mpi.declared(f"step {row}".encode()))
    if noise.training.rank == noise.training.size - 1:
        raise RuntimeError("no such batch")
    noise.training.barrier()


def killed(mpi, steps):
    """Ends without a word, while others wait for it."""
    noise = mpi.join()
    noise.fetch(0, 0, noise.dimension, mpi.declared(b"step 0"))
    if noise.training.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    noise.training.barrier()


def stays_away(mpi, steps):
    """Starts MPI and never joins."""
    time.sleep(600)


if __name__ == "__main__":
    module = load()
    assert MPI.Is_initialized()
    globals()[sys.argv[1]](module, int(sys.argv[2]))
