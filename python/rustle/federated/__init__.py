"""Federated averaging with correlated noise, for clients as the unit of privacy. numpy is all that it needs.

``Server`` is DP-FTRL FedAvg (McMahan, Xu, Zhang (2024), Algorithm 1), ``AdaptiveServer`` the same with adaptive clipping and restarts
(Xu et al. (2023), Algorithm 1), ``Encoding`` the arithmetic of secure aggregation (Xu et al. (2023), Algorithm 2),
``Participation`` who may be asked again. :mod:`rustle.federated.flower` is a Flower strategy,
:mod:`rustle.federated.nvflare` an aggregator for NVFlare.
"""

from ._adaptive import BELOW_CLIP_NORM, AdaptiveServer
from ._clients import clip, local_update
from ._encoding import Encoding
from ._participation import Participation
from ._server import Sgd, Server

__all__ = [
    "BELOW_CLIP_NORM",
    "AdaptiveServer",
    "Encoding",
    "Participation",
    "Server",
    "Sgd",
    "clip",
    "local_update",
]
