"""Hugging Face's ``Trainer`` with clipped sums, checked batches and a session's noise.

::

    trainer = rustle.transformers.Trainer(
        model, args, train_dataset=data, data_collator=collator, rounds=rounds, divide_by=64
    )
    trainer.train()

Models with LoRA adapters of ``peft`` and models with tied weights train as they are: parameters that require no gradient
have no noise, and a weight that two layers share is one parameter.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from . import errors
from ._rounds import Rounds
from ._session import Session
from .metrics import Metrics
from .torch import Attachment, attach, clipped_sum
from .torch._loader import like
from .torch._trainers import check_sum_is_kept, check_trainer, has_noise

__all__ = ["Callback", "Trainer"]


class Callback(transformers.TrainerCallback):
    """A callback that refuses a training without noise or with batches that nothing checks, and logs ε.

    Under a plan on a grid it refuses ``max_grad_norm`` above 0 too. :class:`Trainer` has one. For a ``transformers.Trainer`` of your own that clips gradients itself, whose optimizer noise
    was attached to, and whose ``get_train_dataloader`` returns a :class:`rustle.torch.DataLoader`.

    Args:
        session: The session of the run.
        sinks, arguments: As of :class:`rustle.metrics.Metrics`.
    """

    def __init__(self, session: Session, *sinks: Any, **arguments: Any):
        self._session, self.metrics = session, Metrics(session, *sinks, **arguments)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Checks the trainer."""
        check_trainer([kwargs["optimizer"]], kwargs["train_dataloader"], args.gradient_accumulation_steps)
        check_sum_is_kept(self._session, "max_grad_norm", args.max_grad_norm)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Writes the figures."""
        self.metrics.log(state.global_step)


class Trainer(transformers.Trainer):
    """A ``transformers.Trainer`` that clips each record's gradient, and trains with the noise and batches of a run.

    It trains as many steps as the plan has unless ``max_steps`` says fewer, an epoch being ``steps_per_epoch`` of the
    rounds. Checkpoints carry the cursor: ``train(resume_from_checkpoint=…)`` continues at the row after theirs. What is
    logged has ε, and no ``grad_norm``, which would be that of gradients without noise; the logged loss is without noise
    too, and as secret as the records.

    A record's loss is ``compute_loss`` of a batch of it alone. Gradients of all records of a batch are computed together
    by ``torch.func.vmap``; attention is set to the implementation ``eager``, which that needs.

    Args:
        model: The model. Its parameters that require gradients are those of the plan.
        args: ``TrainingArguments``, for one process. ``per_device_train_batch_size`` has no meaning: batches are those
            of the rounds. ``max_grad_norm``, which would clip their sum before its noise, is set to 0; values other than
            0 and 1, its default, are refused.
        rounds: The :class:`rustle.Rounds` of the run, such as those of :func:`rustle.begin`.
        divide_by: The number that each sum is divided by, such as the batch size.
        microbatch: As of :func:`rustle.torch.clipped_sum`.
        delta: δ at which logs state ε.
        sinks: Further sinks of :class:`rustle.metrics.Metrics`. The tools of ``report_to`` get ε with the other logs.
        arguments: Those of ``transformers.Trainer``.

    Raises:
        rustle.errors.InvalidArgument: Several processes or GPUs, accumulated batches, float16, or a loss of whole batches.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        args: transformers.TrainingArguments,
        *,
        rounds: Rounds,
        divide_by: float,
        microbatch: int | None = None,
        delta: float = 1e-6,
        sinks: tuple[Any, ...] = (),
        **arguments: Any,
    ):
        _check(args, arguments)
        # The records' gradients are clipped; their sum may not be, in float32 and before its noise.
        args.max_grad_norm = 0.0
        if args.max_steps < 0:
            args.max_steps = rounds.session.iterations
        # The loader begins at the session's next step by itself.
        args.ignore_data_skip = True
        if hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation("eager")
        self._rounds, self._divide_by, self._microbatch = rounds, divide_by, microbatch
        #: The noise of the optimizer, once there is one.
        self.attachment: Attachment | None = None
        self._callback = Callback(rounds.session, *sinks, delta=delta)
        given = list(arguments.pop("callbacks", None) or [])
        super().__init__(model, args, callbacks=[*given, self._callback], **arguments)

    def get_train_dataloader(self) -> Any:
        """Returns the loader of the rounds, with the data set and the collator of the trainer's own."""
        return like(super().get_train_dataloader(), self._rounds)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """Returns the trainer's optimizer, with noise."""
        optimizer = super().create_optimizer(*args, **kwargs)
        if not has_noise(optimizer):
            self.attachment = attach(optimizer, self._rounds.session, self.model, divide_by=self._divide_by)
        return optimizer

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *_: Any, **__: Any) -> torch.Tensor:
        """Sets the gradients to the clipped sum of the batch, and returns its mean loss."""
        model.train()
        tensors = {name: value.to(self.args.device) for name, value in inputs.items() if hasattr(value, "to")}

        def loss(call: Any, *values: torch.Tensor) -> torch.Tensor:
            return self.compute_loss(call, dict(zip(tensors, values, strict=True)))

        clip_norm = self._rounds.session.clip_norm
        found = clipped_sum(
            model,
            loss,
            *tensors.values(),
            clip_norm=clip_norm,
            divide_by=self._divide_by,
            microbatch=self._microbatch,
        )
        return found.mean() if len(found) else torch.zeros((), device=self.args.device)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Logs ε beside the figures, and leaves the norm of gradients without noise out."""
        logs.pop("grad_norm", None)
        logs.update(self._callback.metrics.figures())
        super().log(logs, *args, **kwargs)


def _check(args: transformers.TrainingArguments, arguments: dict[str, Any]) -> None:
    refused = {
        "world_size": (args.world_size, 1),
        "n_gpu": (args.n_gpu, 1),
        "gradient_accumulation_steps": (args.gradient_accumulation_steps, 1),
        "fp16": (args.fp16, False),
        "label_smoothing_factor": (args.label_smoothing_factor, 0.0),
        "auto_find_batch_size": (args.auto_find_batch_size, False),
    }
    for name, (value, allowed) in refused.items():
        if value != allowed and not (name == "n_gpu" and value == 0):
            raise errors.make("invalid_argument", f"{name} is {value}; allowed: {allowed}")
    if args.max_grad_norm not in (None, 0, transformers.TrainingArguments.max_grad_norm):
        text = (
            f"max_grad_norm is {args.max_grad_norm}, which clips sums of a batch; allowed: 0. Each record's gradient is clipped "
            "to the plan's clip_norm"
        )
        raise errors.make("invalid_argument", text)
    if arguments.get("compute_loss_func") is not None:
        text = "compute_loss_func is given, which takes whole batches; allowed: a compute_loss of a subclass"
        raise errors.make("invalid_argument", text)
