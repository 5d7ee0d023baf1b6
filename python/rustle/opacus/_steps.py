"""What is checked before a step of Opacus's optimizers: settings of the plan, and the batch of the step."""

from __future__ import annotations

import math
from typing import Any

from .. import errors
from ..torch import DataLoader, Noise


class StepCheck:
    """Refuses steps with another clip norm than the plan's, and steps with more records than their batch has."""

    def __init__(self, noise: Noise):
        self._noise = noise
        plan = noise.session.plan
        self._planned = {"max_grad_norm": plan.clip_norm, "noise_multiplier": plan.noise_multiplier}
        # Whether the norm of each step is that of the session's schedule, which this object sets.
        self._is_scheduled = noise.session.has_clip_schedule
        self._module: Any = None
        self._loader: Any = None
        # Records of backward passes: those that no step took up yet, and those of the logical batch so far.
        self._new, self._summed = 0, 0

    def watch(self, module: Any, loader: DataLoader) -> None:
        """Follows the loader's batches through the module's backward passes."""
        self._module, self._loader = module, loader
        norms = getattr(module, "get_norm_sample", None)
        if norms is not None:
            # Ghost clipping keeps no gradient of each record. It asks for their norms once a backward pass.
            def counted() -> Any:
                found = norms()
                self._new += len(found)
                return found

            module.get_norm_sample = counted

    def before(self, optimizer: Any) -> None:
        """Checks a physical step before the optimizer changes anything."""
        self._check_settings(optimizer)
        if self._is_scheduled:
            optimizer.max_grad_norm = self._planned["max_grad_norm"] = self._noise.session.clip_norm
        is_deferred = optimizer._check_skip_next_step(pop_next=False)
        samples = [p.grad_sample for p in optimizer.params if getattr(p, "grad_sample", None) is not None]
        if samples:
            self._new = sum(map(len, samples[0])) if isinstance(samples[0], list) else len(samples[0])
        records = self._summed + self._new
        if not is_deferred and self._loader is not None:
            self._check_batch(optimizer, records)
        self._summed, self._new = records, 0

    def done(self) -> None:
        """States that the logical batch had its step, or was left out."""
        self._new, self._summed = 0, 0

    def gradients_removed(self) -> None:
        """States that gradients of the last backward passes were set to zero."""
        self._new = 0

    def _check_settings(self, optimizer: Any) -> None:
        for name, planned in self._planned.items():
            for owner in (optimizer, self._module):
                value = getattr(owner, name, planned)
                if self._is_scheduled and name == "max_grad_norm" and _is_same(value, self._noise.session.clip_norm):
                    # A scheduler of Opacus that follows the session's schedule.
                    continue
                if value != planned:
                    text = (
                        f"{name} of the {type(owner).__name__} is {value} now; allowed: {planned}, the plan's, in every step. "
                        "A schedule is part of the run: session.schedule_clip_norms(…) for clip norms, "
                        "rustle.scale_noise(plan, …) for noise, both of plans with float=True"
                    )
                    raise errors.make("invalid_argument", text)

    def _check_batch(self, optimizer: Any, records: int) -> None:
        sampler, guard = self._loader.batch_sampler, self._noise.session.rounds
        if not sampler.by_loader and sampler.pending:
            self._check_none_left_out(optimizer)
            sampler.hand_out()
        step = self._noise.session.next_step
        allowed = guard.records_here(step)
        if records > allowed:
            text = (
                f"the gradients of step {step} are of {records} records; allowed: {allowed}, as many as the batch of its "
                "round has here"
            )
            raise errors.make("step", text)

    def _check_none_left_out(self, optimizer: Any) -> None:
        """Refuses a step after a part of a batch that no step followed, where Opacus splits the batches.

        Parts are drawn as far ahead as the loader's processes work, and no further: more that wait for their step were
        left out.
        """
        ahead = self._loader.num_workers * (self._loader.prefetch_factor or 0)
        left = len(optimizer._step_skip_queue) - 1 - ahead
        if left > 0:
            text = (
                f"{left} parts of batches were left out without a step; allowed: one step for each part of a batch. "
                "engine.attachment.skip() leaves a whole batch out, with its row"
            )
            raise errors.make("step", text)


def _is_same(value: Any, norm: float) -> bool:
    return isinstance(value, (int, float)) and math.isclose(value, norm, rel_tol=1e-9)
