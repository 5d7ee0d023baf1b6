"""Strategies optimised by jax_privacy, and any strategy's loss by plain sums in NumPy.

Each line of standard input is a request in JSON, each line of standard output the answer to it:

  {"optimise": {"family", "size", "n", "b", "k", "loss"}}
      -> {"seconds", "compiling", "parameters": {...}}   or {"absent": why} where the library has no such optimiser
  {"again": {}} -> {"seconds", "compiling"}              the last setting once more, in the same process
  {"evaluate": {"family", "n", "b", "k", "parameters"}} -> {"rms", "max", "sensitivity"}
  any -> {"error": ...}

n rounds, participations of one user at least b rounds apart and k at most. Errors are those of prefix sums, with
noise of variance one; nothing is squared. "seconds" is what a caller waits for, "compiling" the part of it in
which JAX says that it traced, lowered or compiled.
"""

import json
import sys
import time

import numpy as np


class Absent(Exception):
    pass


# What the library does.


class Compiling:
    """Seconds of JAX's own compile events, each moment counted once however they nest."""

    def __init__(self):
        import jax

        self.spans = []
        jax.monitoring.register_event_duration_secs_listener(self.heard)

    def heard(self, event, duration, **_):
        # An event is reported when it ends.
        if event.startswith("/jax/core/compile/"):
            end = time.perf_counter()
            self.spans.append((end - duration, end))

    def since(self, start):
        total, reached = 0.0, start
        for begin, end in sorted(self.spans):
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        self.spans.clear()
        return total


def optimise(case):
    from jax import numpy as jnp
    from jax_privacy.matrix_factorization import banded, buffered_toeplitz, dense, toeplitz

    n, size = case["n"], case["size"]
    reduction = {"rms": jnp.mean, "max": jnp.max}[case["loss"]]
    match case["family"]:
        case "blt":
            # This many buffers and no search for fewer.
            blt = buffered_toeplitz.optimize(
                n=n,
                min_sep=case["b"],
                max_participations=case["k"],
                error={"rms": "mean", "max": "max"}[case["loss"]],
                min_buffers=size,
                max_buffers=size,
            )
            return {"theta": listed(blt.buf_decay), "omega": listed(blt.output_scale)}
        case "band-toeplitz":
            return {"c": listed(toeplitz.optimize_banded_toeplitz(n, size, reduction_fn=reduction))}
        case "band-mf":
            columns = np.array(banded.optimize(n, bands=size, reduction_fn=reduction).params, np.float64)
            columns[np.add.outer(np.arange(n), np.arange(size)) >= n] = 0.0
            return {"columns": listed(columns / np.linalg.norm(columns, axis=1, keepdims=True))}
        case "dense-bands":
            matrix = np.array(dense.optimize(n, bands=size, equal_norm=True, reduction_fn=reduction), np.float64)
            diagonals = [np.append(np.diagonal(matrix, -i), np.zeros(i)) for i in range(size)]
            return {"columns": listed(np.stack(diagonals, axis=1))}
        case "dense":
            return {"matrix": listed(np.tril(dense.optimize(n, reduction_fn=reduction)))}
        case family:
            from importlib.metadata import version

            raise Absent(f"jax-privacy {version('jax-privacy')} has no optimiser for {family}")


def listed(values):
    return np.asarray(values, np.float64).tolist()


# What any strategy costs, from its parameters alone.


def evaluate(case):
    n, b, k, given = case["n"], case["b"], case["k"], case["parameters"]
    match case["family"]:
        case "blt":
            column, decoder = blt_series(np.array(given["theta"]), np.array(given["omega"]), n)
            return toeplitz_loss(column, decoder, b, k)
        case "band-toeplitz":
            column = padded(given["c"], n)
            return toeplitz_loss(column, divide(np.ones(n), given["c"]), b, k)
        case "band-inverse":
            column = divide(np.eye(1, n)[0], given["s"])
            return toeplitz_loss(column, np.cumsum(padded(given["s"], n)), b, k)
        case "band-mf" | "dense-bands":
            columns = np.array(given["columns"])
            bands = columns.shape[1]
            matrix = np.zeros((n + bands, n))
            for i in range(bands):
                matrix[np.arange(n) + i, np.arange(n)] = columns[:, i]
            return matrix_loss(matrix[:n], bands, b, k)
        case "dense":
            return matrix_loss(np.array(given["matrix"]), n, b, k)
        case family:
            raise ValueError(f"no evaluation of {family}")


def padded(values, n):
    return np.append(values[:n], np.zeros(max(0, n - len(values))))


def divide(numerator, series):
    """numerator / series, as power series."""
    from scipy.signal import lfilter

    return lfilter([1.0], series, numerator)


def blt_series(theta, omega, n):
    """The first columns of C and of A C^-1."""
    column = np.append(1.0, np.power.outer(theta, np.arange(n - 1)).T @ omega)
    decoder = np.empty(n)
    decay, weight, buffers = theta.tolist(), omega.tolist(), [0.0] * len(theta)
    for t in range(n):
        row = 1.0 - sum(w * x for w, x in zip(weight, buffers))
        buffers = [d * x + row for d, x in zip(decay, buffers)]
        decoder[t] = row
    return column, decoder


def toeplitz_loss(column, decoder, b, k):
    n = len(column)
    count = min(k, -(-n // b))
    overlapping = count > 1 and np.any(column[b:])
    if overlapping:
        # Earliest and closest is worst where the column never rises; elsewhere this is an upper bound.
        column = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
    together = np.zeros(n)
    for j in range(count):
        together[j * b :] += column[: n - j * b]
    # Where columns do not overlap, one user's share of each is its norm whatever the signs are.
    return loss(np.cumsum(decoder**2), np.linalg.norm(together))


def matrix_loss(matrix, bands, b, k):
    from scipy.linalg import solve_triangular

    n = len(matrix)
    if n > 8192:
        raise ValueError(f"{n} rounds of a matrix; allowed: up to 8192")
    if min(k, -(-n // b)) > 1 and bands > b:
        raise ValueError(f"{bands} bands with participations {b} apart; allowed: up to {b} bands")
    decoder = solve_triangular(matrix.T, np.tri(n).T, lower=False).T
    return loss(np.sum(decoder**2, axis=1), np.sqrt(heaviest(np.sum(matrix**2, axis=0), b, k)))


def heaviest(weights, b, k):
    """The largest sum of k weights at least b apart."""
    best = np.zeros(len(weights) + b)
    for _ in range(min(k, -(-len(weights) // b))):
        best[:-b] = np.maximum.accumulate((weights + best[b:])[::-1])[::-1]
    return best[0]


def loss(row_squares, sensitivity):
    rms, worst = np.sqrt(np.mean(row_squares)), np.sqrt(np.max(row_squares))
    return {"rms": float(rms * sensitivity), "max": float(worst * sensitivity), "sensitivity": float(sensitivity)}


# The conversation.


def timed(compiling, case):
    start = time.perf_counter()
    parameters = optimise(case)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "compiling": compiling.since(start), "parameters": parameters}


def main():
    compiling, case = None, None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "evaluate" in request:
                answer = evaluate(request["evaluate"])
            else:
                if compiling is None:
                    import jax

                    # The library's optimisers work in f64 and round what they return unless all of JAX is set to f64.
                    jax.config.update("jax_enable_x64", True)
                    compiling = Compiling()
                case = request.get("optimise", case)
                answer = timed(compiling, case)
        except Absent as absent:
            answer = {"absent": str(absent)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
