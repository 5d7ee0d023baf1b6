"""Correlated noise for differentially private training.

``begin`` makes a run from (ε, δ) and the shape of a training; ``connect`` opens a session with an engine in this process or
with a cluster; ``plan`` finds the mechanism with the least error; ``report`` states the privacy that a plan or a run
promises. Sums on a grid, where the guarantee holds bit for bit: :mod:`rustle.grid`. Adapters: :mod:`rustle.torch`,
:mod:`rustle.opacus`, :mod:`rustle.jax`, :mod:`rustle.keras`, :mod:`rustle.lightning`, :mod:`rustle.transformers`; :mod:`rustle.ray` starts a cluster's
processes as actors; :mod:`rustle.metrics` for what watches a run. For users
and clients with many records: :mod:`rustle.federated`, :mod:`rustle.user_level`, :mod:`rustle.group_sizes`.
"""

from importlib.metadata import PackageNotFoundError, version

from . import errors, grid, sampling, schemes
from ._batches import Batches
from ._commitment import Commitment
from ._connect import connect
from ._data_set import DataSet
from ._native import Plan
from ._noise_schedule import scale_noise
from ._owners import Owners
from ._planning import calibrate, epsilon, event, plan, report, suggest
from ._rounds import Rounds
from ._run_request import begin
from ._session import Session
from ._sweep import Sweep, SweepRun
from .errors import RustleError

try:
    #: The package's version; of sources that were not installed, one that says so.
    __version__ = version("rustle-noise")
except PackageNotFoundError:
    __version__ = "0+sources"

__all__ = [
    "Batches",
    "Commitment",
    "DataSet",
    "Owners",
    "Plan",
    "Rounds",
    "RustleError",
    "Session",
    "Sweep",
    "SweepRun",
    "__version__",
    "begin",
    "calibrate",
    "connect",
    "epsilon",
    "errors",
    "event",
    "grid",
    "plan",
    "report",
    "sampling",
    "scale_noise",
    "schemes",
    "suggest",
]
