"""Rows of noise by other libraries, as a user of theirs would make them.

Each line of standard input is a request in JSON, each line of standard output the answer to it:

  {"prepare": {"library": ..., "dimension": d, "threads": ..., "family": ..., coefficients}}
      -> {"rates": {way: coordinates/s}, "chosen": way}   the fastest of the ways to do it, warm
  {"measure": seconds} -> {"coordinates_per_second": ...}
  either -> {"error": ...}

A way is a function that makes some rows, waits for them, and returns how many it made.
"""

import functools
import json
import sys
import time


def numpy_ways(case):
    import numpy as np

    generator = np.random.default_rng(0)
    row = np.empty(case["dimension"], np.float32)

    def step():
        generator.standard_normal(dtype=np.float32, out=row)
        return 1

    yield "Generator.standard_normal, one thread", step


def torch_ways(case):
    import torch

    torch.set_num_threads(case["threads"])
    row = torch.empty(case["dimension"], dtype=torch.float32)

    def step():
        torch.randn(row.shape, out=row)
        return 1

    yield "randn", step


def jax_ways(case):
    import jax
    from jax import numpy as jnp

    key = jax.random.key(0)
    if case["family"] == "tree":
        yield "tree in JAX by hand", tree(key, case["dimension"])
        return
    for way, matrix in noising_matrices(case):
        yield f"{way}, privatizer", privatizer(key, matrix, case["dimension"])
        if not isinstance(matrix, jnp.ndarray):
            yield f"{way}, multiply_next", multiply_next(key, matrix, case["dimension"])


def noising_matrices(case):
    """C^-1 in the forms that jax_privacy has for it."""
    import numpy as np
    from jax import numpy as jnp
    from jax_privacy.matrix_factorization import buffered_toeplitz, streaming_matrix, toeplitz

    match case["family"]:
        case "identity":
            yield "identity", streaming_matrix.identity()
        case "blt":
            # In f32: the library refuses f64 parameters unless all of JAX is switched to f64.
            blt = buffered_toeplitz.BufferedToeplitz(
                buf_decay=jnp.array(case["theta"], jnp.float32),
                output_scale=jnp.array(case["omega"], jnp.float32),
            )
            yield "BufferedToeplitz", blt.inverse_as_streaming_matrix()
        case "band-toeplitz":
            coefficients = jnp.array(case["coefficients"], jnp.float32)
            yield "toeplitz", toeplitz.inverse_as_streaming_matrix(coefficients)
        case "band-inverse":
            # The library inverts banded matrices but has no banded inverse: as a dense matrix, of which it
            # draws what is not zero, and as a streaming matrix that keeps the last rows of Z.
            n = 2048
            rows, column = np.zeros((n, n), np.float32), case["coefficients"]
            for lag, coefficient in enumerate(column):
                rows += coefficient * np.eye(n, k=-lag, dtype=np.float32)
            yield "dense", jnp.array(rows)
            yield "streaming by hand", last_rows(column)


def last_rows(column):
    """The Toeplitz matrix with this first column: its state is the rows of Z that it still needs."""
    from jax import numpy as jnp
    from jax_privacy.matrix_factorization import streaming_matrix

    def multiply_next(z, before):
        row = column[0] * z
        for coefficient, past in zip(column[1:], before):
            row += coefficient * past
        return row, (z, *before[:-1])

    def init(z):
        return tuple(jnp.zeros_like(z) for _ in column[1:])

    return streaming_matrix.StreamingMatrix.from_array_implementation(init, multiply_next)


def privatizer(key, matrix, dimension):
    """The library's own gradient transformation, on a gradient of zeros."""
    import jax
    from jax import numpy as jnp
    from jax_privacy import noise_addition

    transformation = noise_addition.matrix_factorization_privatizer(
        matrix, stddev=1.0, prng_key=jax.random.clone(key)
    )
    gradient = jnp.zeros(dimension, jnp.float32)
    state = transformation.init(gradient)
    if isinstance(matrix, jnp.ndarray):
        # Its state is the number of the row; the first rows have few entries.
        state = state + matrix.shape[0] // 2
    update = jax.jit(transformation.update, donate_argnums=1)

    def step():
        nonlocal state
        row, state = update(gradient, state)
        row.block_until_ready()
        return 1

    return step


def multiply_next(key, matrix, dimension):
    """The streaming matrix alone, without a gradient."""
    import jax
    from jax import numpy as jnp

    state = matrix.init_multiply(jnp.zeros(dimension, jnp.float32))
    key = jax.random.clone(key)

    @functools.partial(jax.jit, donate_argnums=1)
    def update(key, state):
        key, now = jax.random.split(key)
        return matrix.multiply_next(jax.random.normal(now, (dimension,)), state), key

    def step():
        nonlocal key, state
        (row, state), key = update(key, state)
        row.block_until_ready()
        return 1

    return step


def tree(key, dimension, leaves=16):
    """Honaker's estimate, bottom up, as residuals: jax_privacy 2.0.0 has no tree. A new one follows the last leaf."""
    import jax
    from jax import numpy as jnp

    @functools.partial(jax.jit, donate_argnums=1)
    def leaf(key, levels):
        """Ends as many subtrees as there are levels below the last, which is overwritten."""
        key, *draws = jax.random.split(key, len(levels) + 1)
        estimate = jax.random.normal(draws[0], (dimension,))
        served = jnp.zeros(dimension)
        for level, (left, draw) in enumerate(zip(levels[:-1], draws[1:]), 1):
            own = 2**level / (2 ** (level + 1) - 1)
            served += left
            estimate = own * jax.random.normal(draw, (dimension,)) + (1 - own) * (left + estimate)
        return estimate - served, (*levels[:-1], estimate), key

    levels = [jnp.zeros(dimension) for _ in range(leaves.bit_length())]

    def step():
        nonlocal key
        for number in range(leaves):
            merged = ((number + 1) & -(number + 1)).bit_length()
            row, levels[:merged], key = leaf(key, levels[:merged])
            row.block_until_ready()
        return leaves

    return step


def rate(step, dimension, seconds):
    started = time.perf_counter()
    rows = step()
    while time.perf_counter() - started < seconds:
        rows += step()
    return rows * dimension / (time.perf_counter() - started)


def prepare(case):
    ways = {"numpy": numpy_ways, "torch": torch_ways}.get(case["library"], jax_ways)
    rates, best = {}, None
    for way, step in ways(case):
        step(), step()
        rates[way] = rate(step, case["dimension"], 0.5)
        if best is None or rates[way] > rates[best[0]]:
            best = way, step
    return best, {"rates": rates, "chosen": best[0]}


def main():
    best, dimension = None, 0
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "prepare" in request:
                best, dimension = None, request["prepare"]["dimension"]
                best, answer = prepare(request["prepare"])
            else:
                answer = {"coordinates_per_second": rate(best[1], dimension, request["measure"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
