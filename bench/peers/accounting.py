"""What runs cost, by dp-accounting and TensorFlow Privacy.

Each line of standard input is a request in JSON, each line of standard output the answer to it:

  {"kind": "gaussian", "sigma", "delta"}
  {"kind": "poisson", "sigma", "q", "rounds", "delta", "grid"}
  {"kind": "mixture", "sigma", "sensitivities", "probabilities", "rounds", "delta", "grid"}
      -> {"figure": epsilon, "seconds"}
  {"kind": "tree", "sigma", "iterations", "between", "participations", "module"}
      -> {"figure": rho, "seconds"}
  any -> {"error": ...}

"between" counts the rounds between two participations. "module" is TensorFlow Privacy's file of tree accounts, which
needs nothing else of that library. "seconds" is what a caller waits for, with everything imported.
"""

import importlib.util
import json
import sys
import time

import dp_accounting
from dp_accounting import pld


def gaussian(asked):
    return dp_accounting.get_epsilon_gaussian(asked["sigma"], asked["delta"])


def composed(asked, event):
    accountant = pld.PLDAccountant(value_discretization_interval=asked["grid"])
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, asked["rounds"]))
    return accountant.get_epsilon(asked["delta"])


def poisson(asked):
    one = dp_accounting.GaussianDpEvent(asked["sigma"])
    return composed(asked, dp_accounting.PoissonSampledDpEvent(asked["q"], one))


def mixture(asked):
    event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(
        asked["sigma"], asked["sensitivities"], asked["probabilities"]
    )
    return composed(asked, event)


def loaded(path):
    """Loaded anew each time: it remembers what it was asked before, and a second answer would cost nothing."""
    specification = importlib.util.spec_from_file_location("tree_aggregation_accountant", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def tree(asked):
    account = asked["module"].compute_zcdp_single_tree
    return float(account(asked["sigma"], asked["iterations"], asked["participations"], asked["between"]))


KINDS = {"gaussian": gaussian, "poisson": poisson, "mixture": mixture, "tree": tree}


def main():
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            if asked["kind"] == "tree":
                asked["module"] = loaded(asked["module"])
            start = time.perf_counter()
            figure = KINDS[asked["kind"]](asked)
            answer = {"figure": figure, "seconds": time.perf_counter() - start}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
