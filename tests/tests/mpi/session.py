"""A training rank that uses the package as any job does: by `mpi://`, and by an engine in the process itself.

    session.py WHAT FOLDER      FOLDER has plan.toml and job.key

The package is the one that tests/setup/mpi_build.sh put together.
"""

import hashlib
import json
import pathlib
import sys

import numpy as np
import rustle
from mpi4py import MPI
from rustle import errors

DIMENSION = 3_700
RANK = MPI.COMM_WORLD.rank


def inproc(folder, name):
    there = f"plan={folder}/plan.toml&key_file={folder}/job.key&dimension={DIMENSION}&threads=1"
    return rustle.connect(f"inproc://{folder}/{name}?{there}")


def sha256(*rows):
    return hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest()


def refused(call):
    """The class, kind, fields and promise of what a call raises, and its words."""
    try:
        call()
    except errors.RustleError as error:
        return [type(error).__name__, error.kind, error.fields, error.retry_safe, str(error)]
    return "nothing"


def life(session, folder):
    """All that a session does: what came of it, the same with every ledger, and digests of noise, which are not."""
    out, said, noise = np.empty(DIMENSION, np.float32), [], []
    say = said.append

    def rows(first, last):
        noise.append(sha256(*(session.fetch_into(step, out).copy() for step in range(first, last))))

    sums = np.cos(np.arange(DIMENSION, dtype=np.float32))
    rows(0, 3)
    parts = [(0, 7), (7, 512), (512, 1851), (1851, DIMENSION)]
    noise.append(sha256(*(session.fetch_into(3, out[low:high], (low, high)) for low, high in parts)))
    folder.mkdir()
    (folder / "sums.f32").write_bytes(sums.tobytes())
    named = {"divide_by": 7, "commitment": rustle.Commitment.declared("step 4")}
    once = session.privatize_(sums.copy(), 4, **named)
    (folder / "private.f32").write_bytes(once.tobytes())
    other_sum = refused(lambda: session.privatize_(2 * sums, 4, **named))
    other_divisor = refused(lambda: session.privatize_(sums.copy(), 4, **named | {"divide_by": 1}))
    same_sum = np.array_equal(once, session.privatize_(sums.copy(), 4, **named))
    cursor = session.cursor()
    exact = [sha256(session.privatize_(sums * step, step, commitment="exact")) for step in (5, 6)]
    say(refused(lambda: session.privatize_(sums, 5, commitment="exact")))
    say(refused(lambda: session.fetch_into(9, out)))
    say(refused(lambda: session.cursor(99)))
    say(refused(lambda: session.resume(cursor[:-1])))
    say([session.resume(cursor, replay=True), session.branch, session.next_step])
    say([sha256(session.privatize_(sums * step, step, commitment="exact")) for step in (5, 6)] == exact)
    say([session.resume(cursor), session.branch, session.next_step])
    rows(5, 9)
    say(session.branch)
    session.restart(2)
    say([session.branch, session.next_step])
    rows(2, 4)
    report = json.loads(session.report(delta=1e-5, format="json"))
    say([report["released"]["rows"], report["guarantees"]])
    say([str(session.plan), session.job, session.iterations, session.dimension])
    session.resume(session.cursor())
    for step in range(session.next_step, session.iterations):
        session.fetch_into(step, out)
    noise.append(sha256(out))
    say(refused(lambda: session.fetch_into(session.iterations, out)))
    said.extend([other_sum, other_divisor, same_sum])
    return {"said": said, "noise": noise}


def same(folder):
    """The same life by both; then the session is closed for good."""
    window = 4 * DIMENSION if "window" in sys.argv else 0
    session = rustle.connect(f"mpi://?window={window}&time_limit=60")
    by_mpi = life(session, pathlib.Path(folder, "by_mpi"))
    second = refused(lambda: rustle.connect("mpi://"))
    session.close()
    closed = refused(session.cursor)
    with inproc(folder, "local") as local:
        here = life(local, pathlib.Path(folder, "here"))
    return {"by_mpi": by_mpi, "here": here, "second": second[0], "closed": closed[0]}


def ranks(folder):
    """Each rank fetches its half of rows that rank 0's session binds, before and after it goes back."""
    session = rustle.connect("mpi://?time_limit=60")
    training = MPI.COMM_WORLD.Create_group(MPI.COMM_WORLD.group.Incl([0, 1]))
    half = [(0, DIMENSION // 2), (DIMENSION // 2, DIMENSION)][training.rank]
    out, digests = np.empty(half[1] - half[0], np.float32), []

    def rows(first, last):
        for step in range(first, last):
            whole = training.gather(session.fetch_into(step, out, half).copy())
            digests.append(sha256(*whole) if whole else None)

    session.join(training.bcast(session.share()))
    rows(0, 3)
    if training.rank == 0:
        before = session.share()
        session.restart(1)
        after = session.share()
        session.join(before)
    training.barrier()
    stale = training.gather(refused(lambda: session.fetch_into(3, out, half))[0])
    session.join(training.bcast(after if training.rank == 0 else None))
    rows(1, 4)
    session.close()
    if training.rank:
        return None
    return {"digests": digests, "stale": stale}


def again(folder):
    """A launch on a ledger with rows must be given the row at which it resumes."""
    kept = pathlib.Path(folder, "cursor")
    session = rustle.connect("mpi://?time_limit=60")
    out = np.empty(DIMENSION, np.float32)
    answer = {"next_step": session.next_step}
    if kept.exists():
        answer["refused"] = refused(lambda: session.fetch_into(session.next_step, out))[0]
        answer["opened"] = session.resume(kept.read_bytes())
        answer["branch"] = session.branch
        session.fetch_into(session.next_step, out)
    else:
        [session.fetch_into(step, out) for step in range(4)]
        kept.write_bytes(session.cursor(3))
    return answer


def on_grid(folder):
    """Rows as integers, sums of integers and of floats, a replay, and what is refused."""
    dimension = 1_300
    window = 4 * dimension if "window" in sys.argv else 0
    with rustle.connect(f"mpi://?window={window}&time_limit=60") as session:
        row = np.empty(dimension, np.int32)
        answer = {"on_grid": session.plan.grid is not None}
        floats = np.empty(dimension, np.float32)
        answer["refused"] = [refused(lambda: session.fetch_into(0, floats))[1]]
        answer["rows"] = sha256(*(session.fetch_into(step, row).copy() for step in range(2)))
        answer["released"] = sha256(session.release_(np.full(dimension, 7, np.int64), 2).astype(np.int32))
        sums = np.cos(np.arange(dimension, dtype=np.float32))
        pathlib.Path(folder, "sums.f32").write_bytes(sums.tobytes())
        cursor = session.cursor()
        private = session.privatize_(sums.copy(), 3, commitment="exact")
        pathlib.Path(folder, "private.f32").write_bytes(private.tobytes())
        session.resume(cursor, replay=True)
        answer["replayed"] = np.array_equal(private, session.privatize_(sums.copy(), 3, commitment="exact"))
        answer["refused"].append(refused(lambda: session.privatize_(np.full(dimension, np.inf, np.float32), 4))[1])
    return answer


if __name__ == "__main__":
    found = globals()[sys.argv[1]](sys.argv[2])
    if RANK == 0:
        print(json.dumps(found))
