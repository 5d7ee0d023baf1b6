"""The noise of one session for the gradients of named parameters."""

from __future__ import annotations

import math
from typing import Any, Iterable, Literal

import numpy as np
import torch
import torch.distributed as dist

from .. import errors
from .._commitment import Commitment
from .._kappa import KappaCheck
from .._layout import Layout, Row, declared, share, skipped, spans
from .._ranks import Drawn, check_drawn, check_kept, drawn_by
from .._session import Session
from .._sum_bound import check_norm
from ..grid import check_addable
from . import _shapes, _tensors
from ._precision import check_products
from ._reductions import check_reductions
from ._state import cursor_of

#: By how much norms of the same gradient may differ among ranks: an all-reduce gives all ranks the same bits, and only the
#: order in which two kinds of device sum up a norm differs.
REPLICA_TOLERANCE = 1e-5

Named = torch.nn.Module | Iterable[tuple[str, torch.nn.Parameter]]


class Noise:
    """The noise of one session for the gradients of named parameters.

    :func:`attach` and the Opacus engine create one each. Coordinates follow the order of the parameters in the plan's
    layout, or that of ``named``.
    """

    def __init__(
        self,
        session: Session,
        named: Named,
        *,
        commitment: Literal["declared", "exact"],
        group: Any,
        reduce: bool,
    ):
        if commitment not in ("declared", "exact"):
            raise errors.make("invalid_argument", f"commitment is {commitment!r}; allowed: declared, exact")
        #: The module that has the parameters, where that is known.
        self.model = named if isinstance(named, torch.nn.Module) else None
        pairs = named.named_parameters() if isinstance(named, torch.nn.Module) else named
        self._named = [(_tensors.plain_name(name), p) for name, p in pairs]
        self.parameters = {name: p for name, p in self._named if p.requires_grad}
        self.session, self.commitment = session, commitment
        self._kappa = KappaCheck(session)
        #: The most contributions of a sum, where no rounds say how many.
        self.records: float | None = None
        #: Names of the next sums that this package made, whose precision no setting changes.
        self.made_here: set[str] = set()
        #: The norm of the last step's values, and the most contributions in them.
        self.seen: tuple[float, float | None] = 0.0, None
        self.layout = Layout.of([(name, tuple(p.shape)) for name, p in self.parameters.items()], session)
        self.parameters = {name: self.parameters[name] for name in self.layout.parameters}
        self.pieces = {name: _tensors.piece_of(self.layout, name, p) for name, p in self.parameters.items()}
        self.sharded = any(_tensors.is_sharded(p) for p in self.parameters.values())
        if reduce and self.sharded:
            text = (
                "reduce=True with sharded parameters; allowed: reduce=False, as FSDP reduces gradients itself"
            )
            raise errors.make("invalid_argument", text)
        self.group, self.reduce = group, reduce
        self.ranks = dist.get_world_size(group) if _tensors.is_distributed() else 1
        self.rank = dist.get_rank(group) if _tensors.is_distributed() else 0
        wanted = [share(session.dimension, self.rank, self.ranks)] if reduce else self._ranges()
        self.wanted = spans(wanted)
        #: What this rank draws, once ranks were compared.
        self._drawn: Drawn | None = None
        if self.ranks > 1:
            session.refuse_clip_schedule("several ranks")
        session.claim(self)
        self._sync_ranks()

    def _ranges(self) -> list[tuple[int, int]]:
        return [(piece.start, piece.end) for piece in self.pieces.values()]

    def _sync_ranks(self) -> None:
        """Makes all ranks bind rows at the position of rank 0 and under its commitments."""
        self._must_resume = False
        if self.ranks > 1:
            place: list[Any] = [(self.session.share(), self.session.needs_resume)]
            source = dist.get_global_rank(self.group, 0) if self.group is not None else 0
            dist.broadcast_object_list(place, src=source, group=self.group)
            position, self._must_resume = place[0]
            if self.rank:
                self.session.join(position)
        self.branch, self.step, self._nonce = self.session.share()

    def follow(self) -> None:
        """Continues where the session went to. Several ranks compare where they are in a collective call instead."""
        if self.ranks == 1:
            self._sync_ranks()

    def check_ranks_draw_alike(self) -> None:
        """Refuses ranks of which two could have the same record in one step. Collective."""
        if self.ranks == 1:
            return
        mine = drawn_by(self.session.rounds)
        found: list[Any] = [None] * self.ranks
        dist.all_gather_object(found, mine, group=self.group)
        check_drawn(found)
        self._drawn = mine

    def row(self, sums: dict[str, torch.Tensor], divide_by: float) -> Row:
        """Binds the next step's row for these local sums, fetches it whole and returns it. Adds nothing."""
        if self.session.is_on_grid:
            check_addable(self.session.plan, "sums that are sharded or share memory")
        step, commitment = self._next(sums, divide_by)
        row = Row(self.session, step, self.wanted, commitment)
        self._advance()
        return row

    def check(self, optimizer: torch.optim.Optimizer, noised: Iterable[torch.Tensor]) -> None:
        """Refuses a step that would change parameters without noise, and parameters that the plan's noise does not fit.

        Parameters may have been unfrozen, added, given a gradient or resized since noise was attached.
        """
        ours = {id(p) for p in noised}
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            if p.grad is not None and id(p) not in ours:
                text = (
                    f"parameter {self.name_of(p)} has a gradient and no noise; allowed: gradients of those that were trainable "
                    "when noise was attached. Set its .grad to None, or train it under a plan that holds it"
                )
                raise errors.make("layout", text)
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for name, p in self.parameters.items():
            if id(p) not in held:
                text = (
                    f"the optimizer does not hold parameter {name!r} any more, which has noise and would never move; allowed: all "
                    "parameters that it held when noise was attached. Detach, and train under a plan without it"
                )
                raise errors.make("layout", text)
        _shapes.check_parameters(self.layout, self.parameters)

    def name_of(self, parameter: torch.Tensor) -> str:
        """Returns what messages call a parameter, also one that the plan does not hold."""
        named = (repr(name) for name, one in self._named if one is parameter)
        return next(named, f"of shape {tuple(parameter.shape)}")

    def skip(self) -> None:
        """Binds the next step's row and discards it."""
        step = self._next_step()
        # One step ahead means that part of the row was delivered already: it is discarded with this step.
        if self.session.next_step == step:
            self.session.excuse(step)
            exact = self.commitment == "exact"
            Row(self.session, step, self.wanted, skipped(self.session, step) if exact else declared(self._nonce, step))
        self._advance()

    def _advance(self) -> None:
        self.step += 1
        if not self.wanted:
            # This rank fetches nothing, so nothing else advances its session.
            self.session.join((self.branch, self.step, self._nonce))

    def _next(self, sums: dict[str, torch.Tensor], divide_by: float) -> tuple[int, Commitment]:
        """Returns the next step and the commitment of its row."""
        step = self._next_step()
        self._check_sums(sums, step, divide_by)
        # A step whose fetch of several stretches failed half way is repeated under the same commitment: none of it was
        # added.
        if self.commitment == "exact":
            return step, self._exact(step, sums, divide_by)
        return step, declared(self._nonce, step)

    def _check_sums(self, sums: dict[str, torch.Tensor], step: int, divide_by: float) -> None:
        """Refuses sums that are of another batch, not finite, or larger than clipped contributions can be.

        On all ranks together: otherwise the others would wait for the one that raised.
        """
        refused: errors.RustleError | None = None
        is_cut = self.ranks > 1 and self.sharded
        whole = _tensors.whole_norm(sums, self.parameters, self.group, self.ranks) if is_cut else None
        try:
            self._check_local(sums, step, divide_by, whole)
        except errors.RustleError as error:
            refused = error
        if self.ranks > 1:
            refused = self._refused_by_any(refused)
        if refused is not None:
            raise refused

    def _refused_by_any(self, mine: errors.RustleError | None) -> errors.RustleError | None:
        """Returns this rank's refusal, or one because another rank refused, or because replicated gradients differ. Collective."""
        norm = 0.0 if mine is not None else self.seen[0]
        device = next(iter(self.parameters.values())).device
        found = torch.tensor([float(mine is not None), norm, -norm], dtype=torch.float64, device=device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX, group=self.group)
        is_refused, most, least = found[0].item(), found[1].item(), -found[2].item()
        if mine is not None:
            return mine
        if is_refused:
            text = "another rank refused its gradient, not finite or otherwise; attachment.skip() leaves this step out"
            return errors.make("invalid_argument", text)
        if self.reduce or self.sharded or most - least <= REPLICA_TOLERANCE * most:
            return None
        text = (
            f"the gradients of ranks differ, with norms from {least:.6g} to {most:.6g}, and one row of noise was to be added to each: "
            "their differences would be released without noise; allowed: the same whole sum on every rank. Synchronise them "
            "(DistributedDataParallel, outside of no_sync), or attach(…, reduce=True) to gradients that each rank keeps"
        )
        return errors.make("invalid_argument", text)

    def _check_local(self, sums: dict[str, torch.Tensor], step: int, divide_by: float, whole_norm: float | None) -> None:
        """``whole_norm``: that of all ranks' parts of the sum, where this rank has one."""
        _shapes.check_sums(self.pieces, sums)
        rounds, records = self.session.rounds, self.records
        check_kept(self._drawn, rounds)
        if rounds is not None:
            # A step that was half delivered comes again.
            whole = rounds.records(step)
            records = whole if records is None else min(records, whole)
        # With ``reduce`` each rank rounds its own sum, and integers are added up.
        here = rounds.records_here(step) if rounds is not None and self.reduce else records
        most = here if records is None else min(here, records)
        self._kappa.check(most)
        if self.session.is_on_grid:
            _tensors.check_float32(sums)
            self._check_bits({name: value for name, value in sums.items() if name not in self.made_here})
            _tensors.check_range(sums, divide_by, 2.0 ** self.session.plan.grid["step"])
        norm = _tensors.norm_of(sums.values()) if whole_norm is None else whole_norm
        self.seen = norm, records
        if not math.isfinite(norm):
            bad = next((name for name, value in sums.items() if not torch.isfinite(value).all()), None)
            of = f"of {bad!r}" if bad is not None else "of all parameters together"
            text = f"the gradient {of} is not finite; attachment.skip() leaves this step out, with its row"
            raise errors.make("invalid_argument", text)
        if most is not None:
            check_norm(norm, divide_by, most, self.session.clip_norm_at(step))

    def _check_bits(self, sums: dict[str, torch.Tensor]) -> None:
        """Refuses sums that others made where they may have fewer bits than their type says."""
        if sums:
            check_products(sums)
            if self.model is not None:
                check_reductions(self.model)

    def _next_step(self) -> int:
        """Returns the next step, if the session is at it."""
        if self.session.branch != self.branch and self.ranks == 1:
            self._sync_ranks()
        if self.session.closed:
            raise errors.make("closed", "the session is closed; detach, connect anew and attach")
        if self._must_resume:
            # On all ranks alike: those that joined would step without rank 0, and wait for it.
            text = (
                f"the job has released rows up to step {self.step}, and the session of rank 0 was not resumed; allowed: load the "
                "optimizer's state on all ranks, or session.restart() on rank 0 before noise is attached (with fresh noise, which "
                "costs privacy)"
            )
            raise errors.make("not_resumed", text)
        if self.session.next_step not in (self.step, self.step + 1):
            text = f"the session is at step {self.session.next_step}, this trainer at {self.step}: another trainer uses the session"
            raise errors.make("step", text)
        return self.step

    def add_all(self, sums: dict[str, torch.Tensor], divide_by: float) -> bool:
        """Adds the next step's noise to all local sums in place.

        Returns False, having done nothing, where their memory does not allow that.
        """
        if self.reduce or self.sharded or len(self.wanted) != 1:
            return False
        arrays, copies = _tensors.in_place(sums), {}
        if arrays is None and self._is_dithered and all(_shapes.is_dense(value) for value in sums.values()):
            # The session alone knows the dither. It takes them from this process's memory, all of them or none.
            copies = _tensors.host_copies(sums)
            arrays = _tensors.in_place(copies)
        if arrays is None:
            return False
        step, commitment = self._next(sums, divide_by)
        if self.session.next_step != step:
            text = (
                f"the noise of step {step} was delivered, and the call that added it was interrupted: gradients may "
                "hold it already; leave the batch out with attachment.skip(), return to a checkpoint, or call "
                "session.restart"
            )
            raise errors.make("step", text)
        pieces = [(self.pieces[name].start, array) for name, array in arrays.items()]
        self.session.add_to(pieces, step, self.wanted[0], commitment, divide_by)
        for name, copy in copies.items():
            sums[name].copy_(copy)
        self._advance()
        return True

    @property
    def _is_dithered(self) -> bool:
        return self.session.is_on_grid and self.session.plan.grid["rounding"] == "dithered"

    def reserve(self, steps: int = 1) -> None:
        """Binds and fetches the rows of the next steps in the background."""
        if self.commitment == "exact":
            text = "commitment is 'exact', which depends on the sums; allowed: 'declared' where steps are reserved"
            raise errors.make("invalid_argument", text)
        if self.session.branch != self.branch and self.ranks == 1:
            self._sync_ranks()
        # A session at another step is reported by the step itself.
        has_next = self.session.next_step == self.step < self.session.iterations and not self.session.closed
        # Of a row in several stretches only the first, whose fetch binds the row, is reserved. Further rows of that
        # stretch alone, or of one rank alone, would make workers return to earlier rows for the rest.
        if len(self.wanted) != 1 or self.ranks > 1:
            steps = 1
        if self.wanted and has_next:
            of = lambda step: declared(self._nonce, step)
            self.session.reserve(self.wanted[0], steps=steps, commitment=of)

    def _exact(self, step: int, sums: dict[str, torch.Tensor], divide_by: float) -> Commitment:
        arrays = [_tensors.raw_bytes(value) for value in sums.values()]
        mine = self.session.exact(step, *arrays, divide_by=divide_by)
        if self.ranks == 1 or not (self.reduce or self.sharded):
            return mine
        parts: list[bytes] = [b""] * self.ranks
        dist.all_gather_object(parts, mine.data, group=self.group)
        return Commitment.together(parts)

    def add(self, row: Row, sums: dict[str, torch.Tensor], divide_by: float) -> None:
        """Adds the row to its sums in place: in float32, then rounded to the type of each sum. Under a plan on a grid the sums
        are rounded to it first, and integers are added: with ``reduce`` those of all ranks, whose sums are then the whole."""
        # All of it is ready before the first sum changes, so that a failure leaves no sum with noise and another without.
        noise = {name: self._noise_of(row, name) for name in sums}
        if self.session.is_on_grid:
            step = 2.0 ** self.session.plan.grid["step"]
            if self.reduce:
                _tensors.reduce_on_grid(sums, noise, divide_by, step, self.group if self.ranks > 1 else None, self.ranks)
                return
            for name, value in sums.items():
                _tensors.add_on_grid(value, noise[name][0][1], divide_by, step)
            return
        for name, value in sums.items():
            if not self.reduce:
                _tensors.add_noise(value, noise[name][0][1], divide_by)
                continue
            flat = value.reshape(-1)
            for first, values in noise[name]:
                _tensors.add_noise(flat[first : first + len(values)], values, divide_by)
            if flat.data_ptr() != value.data_ptr():
                value.copy_(flat.view_as(value))

    def _noise_of(self, row: Row, name: str) -> list[tuple[int, torch.Tensor]]:
        """Returns the row's part of a parameter, as offsets with values: one in its shape, or flat ones where ranks share rows."""
        piece = self.pieces[name]
        if not self.reduce:
            # ascontiguousarray turns shape () into (1,).
            values = np.ascontiguousarray(row.piece(piece)).reshape(piece.shape)
            return [(0, torch.from_numpy(values))]
        found = row.within(piece.start, piece.end)
        return [(first - piece.start, torch.from_numpy(values)) for first, values in found]

    def state_dict(self) -> dict[str, Any]:
        """Returns the job's position, some hundred bytes. Changes nothing."""
        cursor = self.session.cursor(self.step)
        state = {"cursor": cursor.hex(), "layout": self.layout.digest, "step": self.step}
        # accelerate loads at once what it has just saved, which says nothing of where the model is.
        return {**state, "needs_resume": True} if self.session.needs_resume else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a position. Collective: rank 0 resumes, the others follow."""
        cursor = cursor_of(state)
        if state["layout"] != self.layout.digest:
            text = "parameters have other names or shapes than when the state was saved; resume with the same model"
            raise errors.make("layout", text)
        failed: list[Any] = [None]
        if self.rank == 0 and not state.get("needs_resume"):
            try:
                self.session.resume(cursor, replay=self.commitment == "exact")
            except errors.RustleError as error:
                failed = [(error.kind, str(error))]
                if self.ranks == 1:
                    raise
        if self.ranks > 1:
            source = dist.get_global_rank(self.group, 0) if self.group is not None else 0
            dist.broadcast_object_list(failed, src=source, group=self.group)
            if failed[0]:
                raise errors.make(*failed[0])
        self._sync_ranks()
