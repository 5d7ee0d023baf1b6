"""Lightning: a callback that checks how a trainer trains, and writes what the run has cost.

::

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, self, divide_by=64)
        return optimizer

    trainer = lightning.Trainer(callbacks=[rustle.lightning.Callback(session, delta=1e-5)])
    trainer.fit(model, rustle.torch.DataLoader(data, rounds))
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback as _Base
except ImportError:
    from pytorch_lightning import Callback as _Base

from ._session import Session
from .metrics import Metrics
from .torch._trainers import check_sum_is_kept, check_trainer

__all__ = ["Callback"]


class Callback(_Base):
    """A callback that refuses a training without noise or with batches that nothing checks, and logs ε.

    Before the first step it refuses an optimizer without noise, a loader other than :class:`rustle.torch.DataLoader`, and
    batches accumulated for one step; under a plan on a grid ``gradient_clip_val`` too. Losses that the model logs itself are without noise, and as secret as the data.

    Args:
        session: The session of the run.
        sinks: As of :class:`rustle.metrics.Metrics`; by default the trainer's loggers.
        arguments: Those of :class:`rustle.metrics.Metrics`: ``delta``, ``every`` and so on.
    """

    def __init__(self, session: Session, *sinks: Any, **arguments: Any):
        super().__init__()
        self._session, self._sinks, self._arguments = session, sinks, arguments
        self._metrics = Metrics(session, *sinks, **arguments)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Checks the trainer."""
        check_trainer(trainer.optimizers, trainer.train_dataloader, trainer.accumulate_grad_batches)
        check_sum_is_kept(self._session, "gradient_clip_val", trainer.gradient_clip_val)
        if not self._sinks:
            self._metrics = Metrics(self._session, *trainer.loggers, **self._arguments)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Writes the figures."""
        self._metrics.log(trainer.global_step)
