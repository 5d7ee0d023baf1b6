"""What can go wrong, one class a kind.

Every error has ``kind`` (a stable word), ``retry_safe`` (whether the same call again releases nothing that the first
did not) and ``fields`` (its numbers and names). A failed call leaves the model as it was.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "AccessDenied",
    "AccountingError",
    "AlreadyExists",
    "ApprovalRequired",
    "BatchesChanged",
    "BranchOpened",
    "BranchSuperseded",
    "BudgetExceeded",
    "BufferRefused",
    "CommitmentRefused",
    "CursorMismatch",
    "Forked",
    "InvalidArgument",
    "JobOver",
    "KeyIsLeft",
    "LayoutMismatch",
    "LedgerBehind",
    "LedgerCopied",
    "LedgerMissing",
    "Locked",
    "MixesExamples",
    "NotFound",
    "NotResumed",
    "OutOfMemory",
    "OutOfReach",
    "PlanError",
    "QuotaExceeded",
    "RangeNotAllowed",
    "RustleError",
    "SessionBusy",
    "SessionClosed",
    "StaleGradients",
    "StepError",
    "StoreError",
    "SumTooLarge",
    "Unavailable",
    "Unchecked",
    "Untrusted",
    "WrongRows",
]


class RustleError(Exception):
    """The base of all of them."""

    kind: str = "internal"
    retry_safe: bool = False
    fields: dict[str, Any] = {}


class InvalidArgument(RustleError, ValueError):
    """A value that is not allowed; the text says which are."""


class PlanError(InvalidArgument):
    """A plan that can't be used."""


class BufferRefused(InvalidArgument):
    """Not float32 in C order, on the CPU, and writable."""


class SumTooLarge(InvalidArgument):
    """A sum that its contributions can't have if each is clipped to the plan's norm."""


class MixesExamples(InvalidArgument):
    """A layer through which the gradient of one example depends on others."""


class AccountingError(InvalidArgument):
    """No account is known of what was asked."""


class OutOfReach(AccountingError):
    """No number in the range tried keeps the (ε, δ) asked for."""


class StepError(RustleError):
    """A step skipped, or repeated for another gradient."""


class StaleGradients(StepError):
    """Gradients that had their step already, or that hold those of the step before."""


class NotResumed(StepError):
    """The job has released rows already: ``resume(cursor)`` or ``restart()`` first."""


class CommitmentRefused(RustleError):
    """The row is bound to another commitment, and can't be released for this one."""


class BranchSuperseded(RustleError):
    """The job continued on a newer branch; ``resume`` with a cursor."""


class CursorMismatch(RustleError):
    """The cursor is of another job, plan or layout, or of a job of the same name in another ledger."""


class LayoutMismatch(CursorMismatch):
    """Parameters have other names, shapes or places than the job was begun with."""


class BatchesChanged(CursorMismatch):
    """The batches are not those that the run began with: another seed, scheme, population or length."""


class LedgerBehind(RustleError):
    """The ledger knows less than was released: it may be an old copy. Nothing is bound until that is cleared."""


class LedgerCopied(RustleError):
    """The ledger is a copy, or an older copy in its place. It can be read, and binds nothing; ``connect(…, adopt=True)``
    continues with fresh noise."""


class LedgerMissing(RustleError):
    """The folder has a key and no ledger: what the lost one released is not known, and no new one is begun in silence."""


class SessionClosed(RustleError):
    """Used after ``close``."""


class Forked(SessionClosed):
    """Opened before a fork. Connect in each process by itself."""


class SessionBusy(RustleError):
    """Another thread or trainer uses the session."""


class Locked(RustleError):
    """Another process holds the ledger of this folder, or a session of this one, which the text then says."""


class BudgetExceeded(RustleError):
    """The data set's budget does not hold the request. ``fields``: ``budget``, ``spent``, ``reserved``, ``asked``, ``total``, ``fits``."""


class ApprovalRequired(RustleError):
    """The data set's rule demands that another person approves the change first, and nothing was done. ``fields``: ``data_set``,
    ``change``, ``reason``, ``remedy``."""


class JobOver(RustleError):
    """The job was finished or destroyed, and binds no further row."""


class QuotaExceeded(RustleError):
    """A quota of the job or of this caller is used up, and nothing was written. ``fields``: ``what``, ``limit``, ``remedy``,
    ``retry_after_ms``. A retry is safe where ``retry_safe`` says so, after that time."""


class NotFound(RustleError, LookupError):
    """No job of that name."""


class AlreadyExists(RustleError):
    """A job of that name was made with another plan, dimension or key."""


class AccessDenied(RustleError, PermissionError):
    """Who calls is not known, or may not do this; or a key file that others may read."""


class RangeNotAllowed(AccessDenied):
    """More coordinates than the token allows. ``fields``: what was ``asked``, and what is ``allowed``."""


class Untrusted(AccessDenied):
    """Who answers is no coordinator of the authority in ca.pem, or its certificate's time is over."""


class Unavailable(RustleError, ConnectionError):
    """No worker or coordinator answers now. Safe to retry."""


class StoreError(RustleError, OSError):
    """A file or store failed. Look at it before going on: what was bound last is not known."""


class WrongRows(RustleError):
    """The processor or its memory is faulty: rows differ from the specified ones. Nothing more is released here."""


class OutOfMemory(RustleError, MemoryError):
    """No memory for rows or state."""


class BranchOpened(UserWarning):
    """A warning: a job that resumed has fresh noise for rows that it released already, which costs privacy."""


class KeyIsLeft(UserWarning):
    """A warning: a job was destroyed, and a key that makes its rows is left, which the session can't delete."""


class Unchecked(UserWarning):
    """A warning: nothing checks a promise that the plan's privacy rests on."""


_CLASSES: dict[str, type[RustleError]] = {
    "accounting": AccountingError,
    "already_bound": CommitmentRefused,
    "already_exists": AlreadyExists,
    "approval_required": ApprovalRequired,
    "batches": InvalidArgument,
    "batches_changed": BatchesChanged,
    "branch_superseded": BranchSuperseded,
    "budget_exceeded": BudgetExceeded,
    "buffer": BufferRefused,
    "busy": SessionBusy,
    "closed": SessionClosed,
    "cursor_mismatch": CursorMismatch,
    "draining": Unavailable,
    "fenced": Unavailable,
    "forked": Forked,
    "grid_rows_are_integers": PlanError,
    "invalid_argument": InvalidArgument,
    "job_state": JobOver,
    "key": AccessDenied,
    "layout": LayoutMismatch,
    "ledger_behind": LedgerBehind,
    "ledger_copied": LedgerCopied,
    "ledger_missing": LedgerMissing,
    "locked": Locked,
    "mixes_examples": MixesExamples,
    "not_found": NotFound,
    "not_owner": Unavailable,
    "not_resumed": NotResumed,
    "out_of_memory": OutOfMemory,
    "out_of_reach": OutOfReach,
    "permission_denied": AccessDenied,
    "plan": PlanError,
    "plan_digest_mismatch": PlanError,
    "quota_exceeded": QuotaExceeded,
    "range_beyond_dimension": InvalidArgument,
    "range_not_allowed": RangeNotAllowed,
    "range_unavailable": Unavailable,
    "resource_exhausted": Unavailable,
    "restoring": Unavailable,
    "row_beyond_iterations": StepError,
    "stale_gradients": StaleGradients,
    "step": StepError,
    "store": StoreError,
    "sum_too_large": SumTooLarge,
    "unauthenticated": AccessDenied,
    "unavailable": Unavailable,
    "untrusted": Untrusted,
    "wrong_rows": WrongRows,
}

# What rustls says of a certificate. The client of a cluster tries again after any failed connection, but the person who reads the
# error has to look at certificates, not at the network.
_BAD_CERTIFICATE = "invalid peer certificate"


def make(kind: str, message: str, retry_safe: bool = False, fields: str = "") -> RustleError:
    """The error of a kind. ``fields``: a JSON object, or nothing."""
    if kind == "unavailable" and _BAD_CERTIFICATE in message:
        kind = "untrusted"
        message = f"who answers there is no coordinator of the authority in ca.pem ({message})"
    error = _CLASSES.get(kind, RustleError)(message)
    error.kind, error.retry_safe = kind, retry_safe
    error.fields = {k: v for k, v in json.loads(fields).items() if k != "kind"} if fields else {}
    return error
