"""Opening a session at a URL."""

from __future__ import annotations

from . import _native, errors
from ._session import Session


def connect(url: str, adopt: bool = False) -> Session:
    """Opens the session of a job, at a URL of one of these forms.

    ``inproc://FOLDER?plan=PLAN.toml&job=NAME&dimension=M&key_file=FILE&threads=N``
        An engine in this process. The folder holds the ledger of what was released, and the key unless ``key_file``
        names another; the plan is ``FOLDER/plan.toml`` unless ``plan`` names another. Ledger and key begin with the
        first connection; a folder with a key and without its ledger is refused.
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
        adopt: Lets a copy go on as a ledger of its own: every running job gets a branch with fresh noise, which costs
            privacy as a rewind does. What the other copy released since is in no account of this one. Without effect where
            nothing was copied; for ``inproc://`` alone.

    Raises:
        rustle.errors.InvalidArgument: The URL has another form or an unknown setting.
        rustle.errors.Locked: Another process uses the folder.
        rustle.errors.InvalidArgument: ``adopt`` for another URL than ``inproc://``.
        rustle.errors.LedgerMissing: The folder's ledger is lost, or never came with its key. Nothing was created.
        rustle.errors.Unavailable: No coordinator answers.
    """
    if url.startswith("mpi://"):
        from ._mpi import session_of

        if adopt:
            raise errors.make("invalid_argument", "adopt is True; allowed: False, and `rustle ledger adopt --file`")
        return Session(session_of(url))
    return Session(_native.connect(url, adopt))
