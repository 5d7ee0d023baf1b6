"""Rows of noise added to a gradient of zeros, by one library in a process of its own: ``noise_makers.py LIBRARY``.

Each line of standard input is a request in JSON, each line of standard output the answer to it:

  {"prepare": {"family": ..., "dimension": d, "threads": k, "folder": ...}} -> {"way": what is called}
  {"measure": seconds}                                                     -> {"coordinates_per_second": rate}
  either                                                                   -> {"error": ...}
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Callable

Step = Callable[[], None]

#: Simple ones: what the numbers are does not change how fast rows are made.
BUFFERS = [(0.99, 0.1), (0.9, 0.15), (0.7, 0.1), (0.3, 0.05)]
BANDS = 16
COLUMN = [0.8**lag for lag in range(BANDS)]
ROWS = 4096


def ours(family: str, dimension: int, threads: int, folder: str) -> tuple[str, Step]:
    import numpy as np
    import sessions

    import rustle

    sized = {"blt": ("blt", len(BUFFERS)), "banded": ("band-toeplitz", BANDS)}
    mechanism, size = sized.get(family, (family, None))
    place = Path(folder)
    place.mkdir(parents=True)
    sessions.plan(dimension, ROWS, mechanism, size).save(place / "plan.toml")
    session = rustle.connect(f"inproc://{place}?threads={threads}")
    gradient = np.zeros(dimension, np.float32)

    def step() -> None:
        session.privatize_(gradient, session.next_step)

    return "Session.privatize_", step


def jax_privacy(family: str, dimension: int, threads: int, folder: str) -> tuple[str, Step]:
    import jax
    from jax import numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz, streaming_matrix, toeplitz

    if family == "tree":
        raise ValueError("jax-privacy 2.0.0 has no tree")
    if family == "identity":
        matrix = streaming_matrix.identity()
    elif family == "blt":
        decays, scales = (jnp.array(column, jnp.float32) for column in zip(*BUFFERS))
        blt = buffered_toeplitz.BufferedToeplitz(buf_decay=decays, output_scale=scales)
        matrix = blt.inverse_as_streaming_matrix()
    else:
        matrix = toeplitz.inverse_as_streaming_matrix(jnp.array(COLUMN, jnp.float32))
    made = noise_addition.matrix_factorization_privatizer(matrix, stddev=1.0, prng_key=jax.random.key(0))
    gradient = jnp.zeros(dimension, jnp.float32)
    state = made.init(gradient)
    update = jax.jit(made.update, donate_argnums=1)

    def step() -> None:
        nonlocal state
        row, state = update(gradient, state)
        row.block_until_ready()

    return "matrix_factorization_privatizer, jitted, state donated", step


def torch(family: str, dimension: int, threads: int, folder: str) -> tuple[str, Step]:
    import plain_torch
    import torch

    torch.set_num_threads(threads)
    gradient = torch.zeros(dimension)
    maker = {
        "identity": lambda: plain_torch.Independent(dimension),
        "blt": lambda: plain_torch.Blt(BUFFERS, dimension),
        "banded": lambda: plain_torch.Banded(COLUMN, dimension),
        "tree": lambda: plain_torch.Tree(ROWS, dimension),
    }[family]()

    def step() -> None:
        gradient.add_(maker.row())

    return "torch.normal and the mechanism as it is written down", step


def tensorflow_privacy(family: str, dimension: int, threads: int, folder: str) -> tuple[str, Step]:
    if family != "tree":
        raise ValueError("its correlated noise is the tree's")
    import importlib.util
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # The one file: the package asks for versions of others that it does not need for this.
    spec = importlib.util.find_spec("tensorflow_privacy")
    path = Path(spec.submodule_search_locations[0]) / "privacy/dp_query/tree_aggregation.py"
    loaded = importlib.util.spec_from_file_location("tree_aggregation", path)
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    draw = lambda: tf.random.normal([dimension])
    aggregator = module.EfficientTreeAggregator(draw)
    # tf.function keeps no hold of the object of a bound method.
    state, update = aggregator.init_state(), tf.function(lambda state: aggregator.get_cumsum_and_update(state))
    gradient, before = tf.zeros([dimension]), tf.zeros([dimension])

    def step() -> None:
        nonlocal state, before
        total, state = update(state)
        # What is added in a step is the difference of prefix sums.
        (gradient + (total - before)).numpy()
        before = total

    return "EfficientTreeAggregator within tf.function", step


LIBRARIES = {f.__name__.replace("_", "-"): f for f in (ours, jax_privacy, torch, tensorflow_privacy)}


def rate(step: Step, dimension: int, seconds: float) -> float:
    started, rows = time.perf_counter(), 0
    while rows == 0 or time.perf_counter() - started < seconds:
        step()
        rows += 1
    return rows * dimension / (time.perf_counter() - started)


def main() -> None:
    make, step, dimension = LIBRARIES[sys.argv[1]], None, 0
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        try:
            if "prepare" in request:
                dimension = request["prepare"]["dimension"]
                # What came before gives its memory back first.
                step = None
                way, step = make(**request["prepare"])
                # As many as a banded mechanism needs to have all its bands, and whatever compiles.
                for _ in range(BANDS):
                    step()
                answer: dict[str, Any] = {"way": way}
            else:
                answer = {"coordinates_per_second": rate(step, dimension, request["measure"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
