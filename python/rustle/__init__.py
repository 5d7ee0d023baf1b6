"""Correlated noise for differentially private training.

``connect`` opens a session with an engine in this process or with a cluster; ``plan`` finds the mechanism with the least
error; ``report`` states the privacy that a plan or a run promises. Adapters: :mod:`rustle.torch`, :mod:`rustle.opacus`, :mod:`rustle.jax`. For users
and clients with many records: :mod:`rustle.federated`, :mod:`rustle.user_level`, :mod:`rustle.group_sizes`.
"""

from . import errors, sampling, schemes
from ._batches import Batches
from ._commitment import Commitment
from ._connect import connect
from ._data_set import DataSet
from ._native import Plan
from ._planning import calibrate, epsilon, event, plan, report, suggest
from ._rounds import Rounds
from ._session import Session
from ._sweep import Sweep, SweepRun
from .errors import RustleError

__all__ = [
    "Batches",
    "Commitment",
    "DataSet",
    "Plan",
    "Rounds",
    "RustleError",
    "Session",
    "Sweep",
    "SweepRun",
    "calibrate",
    "connect",
    "epsilon",
    "errors",
    "event",
    "plan",
    "report",
    "sampling",
    "schemes",
    "suggest",
]
