"""Opening a session at a URL."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from . import _arguments, _holders, _native, _notes, errors
from ._data_set import AccountWords, DataSet, account_of, check_folder
from ._session import Session
from .sampling import Sampling


def connect(
    url: str,
    adopt: bool = False,
    *,
    data_set: DataSet | None = None,
    batches: Sampling | None = None,
    blocks: Iterable[str] | None = None,
) -> Session:
    """Opens the session of a job, at a URL of one of these forms.

    ``inproc://FOLDER?plan=PLAN.toml&job=NAME&dimension=M&key_file=FILE&threads=N``
        An engine in this process. The folder holds the ledger of what was released, and the key unless ``key_file``
        names another; the plan is ``FOLDER/plan.toml`` unless ``plan`` names another. Ledger and key begin with the
        first connection; a folder with a key and without its ledger is refused. A new one gets a ``.gitignore`` and, where it
        holds nothing but the run, a ``README.md`` that says what is secret in it.
    ``grpc://HOST:PORT``, ``unix:///SOCKET``
        A coordinator on this host; beyond it only with ``?insecure=true``.
    ``grpcs://HOST:PORT?tls_dir=FOLDER``
        A coordinator by TLS, with ca.pem, cert.pem and key.pem.
    ``shm://HOST:PORT``, ``shm:///SOCKET``
        The same, but workers of this host write rows to memory that this process lends them.
    ``mpi://?window=BYTES&time_limit=SECONDS``
        The noise ranks of this process's own ``mpirun`` (docs/mpi.md); all training ranks connect together. ``window``:
        memory lent to noise ranks of this node, four bytes per coordinate, which they write rows to; without it they
        send rows.

    URLs of clusters take ``job``, ``timeout`` (seconds that a fetch waits, 60), ``tls_dir``, ``token_file`` and
    ``insecure``. The job must exist there: ``rustle job create``. All of them make the noise of one stream: key, plan,
    dimension and the nonces that a ledger drew for the job decide every bit. Two folders have two ledgers, and so two
    kinds of noise, even with one key and plan.

    A copied folder, or an older copy of a ledger in its place, has the nonces of the original and would repeat its noise. Both
    are found (docs/guarantees.md says how, and what is not found): such a session can be read, and its first row raises
    ``LedgerCopied``. Go on with the original, or connect once with ``adopt``.

    Args:
        url: Where the noise is made.
        adopt: Lets a copy go on as a ledger of its own: every running job gets a branch with fresh noise, and is charged for
            all rows that were not bound yet as if the other copy released them, beyond its budget too; runs of sweeps are
            finished. What else the other copy released since (after a rewind, or of other jobs) is in no account of this
            one, and every report of the job says so. Without effect where nothing was copied; for ``inproc://`` alone.

    ``data_set``: the data set of this folder whose budget pays for the whole plan when the job is created; a job of one names it
    at every connection. ``batches``: how the records of each round are chosen, which its account assumes: None for any order, or
    :class:`rustle.sampling.CyclicPoisson`. ``blocks``: names of the blocks that the job reads, where the data set has blocks. A coordinator's job has the data set that ``rustle job create --data-set`` named.

    Raises:
        rustle.errors.BudgetExceeded: The data set's budget does not hold the plan. Nothing was reserved.
        rustle.errors.InvalidArgument: The URL has another form or an unknown setting.
        rustle.errors.Locked: Another process uses the folder, or another session of this one. In an interactive
            interpreter or a notebook, where a cell is run again, the earlier session is closed instead.
        rustle.errors.InvalidArgument: ``adopt`` for another URL than ``inproc://``.
        rustle.errors.LedgerMissing: The folder's ledger is lost, or never came with its key. Nothing was created.
        rustle.errors.Unavailable: No coordinator answers.
    """
    forms = "a text such as 'inproc://FOLDER' (f'inproc://{folder}') or 'grpcs://HOST:PORT?tls_dir=FOLDER'"
    url, adopt = _arguments.text("url", url, forms), _arguments.flag("adopt", adopt)
    account = account_of(data_set, batches, blocks)
    if url.startswith("mpi://"):
        from ._mpi import session_of

        if adopt:
            raise errors.make("invalid_argument", "adopt is True; allowed: False, and `rustle ledger adopt --file`")
        if account is not None:
            text = "data_set is given; allowed: none under MPI, which keeps no budgets"
            raise errors.make("invalid_argument", text)
        return Session(session_of(url))
    if url.startswith("inproc://"):
        if data_set is not None:
            check_folder(url, data_set)
        return _connect_folder(url, account, adopt)
    return Session(_native.connect(url, account, None, adopt))


def _connect_folder(url: str, account: AccountWords | None, adopt: bool) -> Session:
    folder = os.path.realpath(url.removeprefix("inproc://").partition("?")[0])
    before = _holders.holder(folder)
    # A cell that is run again: the interpreter keeps the first session alive, and no name may be left to close it by.
    if before is not None and hasattr(sys, "ps1"):
        before.close()
    elif before is not None:
        raise _holders.held(folder)
    is_new = not os.path.exists(os.path.join(folder, "ledger.redb"))
    session = Session(_native.connect(url, account, None, adopt))
    if is_new:
        _notes.write(folder)
    _holders.note(folder, session)
    return session
