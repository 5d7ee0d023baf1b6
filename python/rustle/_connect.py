"""Opening a session at a URL."""

from __future__ import annotations

import os
import sys
import weakref

from . import _native, _notes, errors
from ._session import Session


def connect(url: str) -> Session:
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
    kinds of noise, even with one key and plan. Only a copy of a ledger repeats its noise: never copy a folder to train
    twice.

    Raises:
        rustle.errors.InvalidArgument: The URL has another form or an unknown setting.
        rustle.errors.Locked: Another process uses the folder, or another session of this one. In an interactive
            interpreter or a notebook, where a cell is run again, the earlier session is closed instead.
        rustle.errors.LedgerMissing: The folder's ledger is lost, or never came with its key. Nothing was created.
        rustle.errors.Unavailable: No coordinator answers.
    """
    if url.startswith("mpi://"):
        from ._mpi import session_of

        return Session(session_of(url))
    if url.startswith("inproc://"):
        return _connect_folder(url)
    return Session(_native.connect(url))


# The sessions of each process, by their folders: a fork has those of its parent, and can close none of them.
_open: weakref.WeakValueDictionary[tuple[int, str], Session] = weakref.WeakValueDictionary()


def _connect_folder(url: str) -> Session:
    folder = os.path.realpath(url.removeprefix("inproc://").partition("?")[0])
    here = os.getpid(), folder
    before = _open.get(here)
    is_held = before is not None and not before.closed
    # A cell that is run again: the interpreter keeps the first session alive, and no name may be left to close it by.
    if is_held and hasattr(sys, "ps1"):
        before.close()  # type: ignore[union-attr]
    elif is_held:
        text = f"this process has a session of {folder} already; allowed: one. Close it first: session.close()"
        raise errors.make("locked", text)
    is_new = not os.path.exists(os.path.join(folder, "ledger.redb"))
    session = Session(_native.connect(url))
    if is_new:
        _notes.write(folder)
    _open[here] = session
    return session
