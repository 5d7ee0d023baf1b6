"""A session's promises: the same bits, one step after the other, whole or not at all."""

import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import BINARY, DIMENSION, STEPS, prepared, rows, write_key

import rustle
from rustle import Commitment, errors


def test_rows_are_those_of_a_cluster_by_every_scheme(session, folder, cluster):
    expected = rows(session, 4)
    assert expected.std() > 0 and len(np.unique(expected)) > 0.9 * expected.size
    with rustle.connect(cluster.url("unix")) as remote:
        assert np.array_equal(rows(remote, 4), expected)
        place = remote.cursor()
        with rustle.connect(cluster.url("shm")) as lent:
            lent.resume(place)
            ours, theirs = np.empty(DIMENSION, np.float32), np.empty(DIMENSION, np.float32)
            session.fetch_into(4, ours)
            lent.fetch_into(4, theirs)
            assert np.array_equal(ours, theirs)
            ours[:], theirs[:] = 1, 1
            session.privatize_(ours, 5, divide_by=3)
            lent.privatize_(theirs, 5, divide_by=3)
            assert np.array_equal(ours, theirs) and ours.std() > 0


@pytest.mark.parametrize("first", [(0, DIMENSION), (600, 1100), (700, 701)])
def test_a_range_is_a_part_of_the_row(session, tmp_path, plan, first):
    whole = rows(session, 3)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        part = np.empty(first[1] - first[0], np.float32)
        assert np.array_equal(other.fetch_into(0, part, first), whole[0, first[0] : first[1]])
        for step in (1, 2):
            for start, end in [(700, 701), (0, 700), (1000, DIMENSION), (701, 1000)]:
                part = np.empty(end - start, np.float32)
                other.fetch_into(step, part, (start, end))
                assert np.array_equal(part, whole[step, start:end])


def test_steps_come_one_after_the_other(session):
    out = np.empty(DIMENSION, np.float32)
    with pytest.raises(errors.StepError, match="can't be skipped"):
        session.fetch_into(1, out)
    session.fetch_into(0, out[:100], (0, 100))
    session.fetch_into(0, out[100:], (100, DIMENSION))
    with pytest.raises(errors.StepError, match="requested already"):
        session.fetch_into(0, out[:50], (50, 100))
    with pytest.raises(errors.StepError, match="requested already"):
        session.privatize_(out, 0)
    session.fetch_into(1, out)
    with pytest.raises(errors.StepError):
        session.fetch_into(0, out)
    with pytest.raises(errors.StepError):
        session.fetch_into(-1, out)
    for step in range(2, STEPS):
        session.fetch_into(step, out)
    with pytest.raises(errors.StepError, match="12"):
        session.fetch_into(STEPS, out)


def test_a_refused_step_leaves_the_buffer_alone(session):
    session.privatize_(np.zeros(DIMENSION, np.float32), 0)
    before = np.arange(DIMENSION, dtype=np.float32)
    after = before.copy()
    for step in (0, 5):
        with pytest.raises(errors.StepError):
            session.privatize_(after, step)
    assert np.array_equal(before, after)


def test_an_exact_commitment_gives_the_same_noise_to_the_same_sum_alone(session):
    sums = np.ones(DIMENSION, np.float32)
    first = session.privatize_(sums.copy(), 0, commitment="exact")
    again = session.privatize_(sums.copy(), 0, commitment="exact")
    assert np.array_equal(first, again)
    other = sums.copy()
    other[7] = np.nextafter(np.float32(1), np.float32(2))
    kept = other.copy()
    with pytest.raises(errors.CommitmentRefused) as refused:
        session.privatize_(other, 0, commitment="exact")
    assert np.array_equal(other, kept)
    assert (
        refused.value.fields["row"] == 0
        and not refused.value.retry_safe
        and refused.value.kind == "already_bound"
    )


def test_named_commitments(session):
    out, again = np.empty(DIMENSION, np.float32), np.empty(DIMENSION, np.float32)
    batch = Commitment.declared("batch 0")
    session.fetch_into(0, out, commitment=batch)
    session.fetch_into(1, again)
    session.fetch_into(0, again, commitment=batch)
    assert np.array_equal(out, again)
    with pytest.raises(errors.CommitmentRefused):
        session.fetch_into(0, again, commitment=Commitment.declared("batch 1"))
    with pytest.raises(errors.InvalidArgument):
        Commitment(b"short")


def test_a_job_that_has_run_must_be_resumed(folder):
    out = np.empty(DIMENSION, np.float32)
    with rustle.connect(f"inproc://{folder}") as session:
        expected = rows(session, 3)
        cursor = session.cursor(2)
        assert len(cursor) < 512 and session.cursor(2) == cursor
    with rustle.connect(f"inproc://{folder}") as session:
        with pytest.raises(errors.NotResumed, match="resume"):
            session.fetch_into(3, out)
        assert session.resume(cursor)
    # It ended before its first row: that noise is fresh was true then, and is now.
    with rustle.connect(f"inproc://{folder}") as session:
        assert session.resume(cursor)
        assert session.next_step == 2 and session.branch == 1
        session.fetch_into(2, out)
        assert not np.array_equal(out, expected[2])
        session.restart()
        assert session.next_step == 0 and session.branch == 2


def test_exact_rows_may_come_again(folder):
    sums = np.ones(DIMENSION, np.float32)
    with rustle.connect(f"inproc://{folder}") as session:
        first = [session.privatize_(sums * step, step, commitment="exact") for step in range(4)]
        cursor = session.cursor(1)
    with rustle.connect(f"inproc://{folder}") as session:
        assert not session.resume(cursor, replay=True)
        assert session.branch == 0
        again = [session.privatize_(sums * step, step, commitment="exact") for step in range(1, 4)]
        assert all(np.array_equal(a, b) for a, b in zip(first[1:], again))


def test_cursors_that_are_refused(session, tmp_path, plan):
    session.fetch_into(0, np.empty(DIMENSION, np.float32))
    cursor = session.cursor()
    # A session's, and the ledger's own inside, which is of version 2.
    assert cursor[0] == 0xC5 and cursor[37] == 2
    for whole in (cursor, cursor[37:]):
        bad = [b"", whole[:-1], *(bytes([first]) + whole[1:] for first in (0, 1, 3, 0xC4))]
        bad += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (1, len(whole) - 1)]
        for given in bad:
            with pytest.raises(errors.InvalidArgument, match="cursor"):
                session.resume(given)
    with pytest.raises(errors.InvalidArgument):
        session.cursor(2)
    wider = prepared(tmp_path / "wider", plan.replace(dimension=DIMENSION + 1))
    with rustle.connect(f"inproc://{wider}") as other, pytest.raises(errors.CursorMismatch):
        other.resume(cursor)
    louder = prepared(tmp_path / "louder", plan.replace(noise_multiplier=9.0))
    with rustle.connect(f"inproc://{louder}") as other, pytest.raises(errors.CursorMismatch):
        other.resume(cursor)
    # A job of the same name, plan and key in another ledger.
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    plan.save(foreign / "plan.toml")
    url = f"inproc://{foreign}?key_file={write_key(tmp_path / 'foreign.key')}"
    with rustle.connect(url) as other, pytest.raises(errors.CursorMismatch, match="nonce"):
        other.resume(cursor)
    # Its folder knows less than the cursor has seen.
    empty = prepared(tmp_path / "empty", plan)
    with rustle.connect(f"inproc://{empty}") as other, pytest.raises(errors.LedgerBehind):
        other.resume(cursor)


def test_a_folder_is_one_process_and_one_plan(session, folder, plan):
    with pytest.raises(errors.Locked):
        rustle.connect(f"inproc://{folder}")
    session.close()
    plan.replace(noise_multiplier=9.0).save(folder / "plan.toml")
    with pytest.raises(errors.AlreadyExists, match="plan digest"):
        rustle.connect(f"inproc://{folder}")


def new_run(folder, plan):
    """A folder with a plan alone."""
    folder.mkdir()
    plan.save(folder / "plan.toml")
    return folder


def test_two_folders_with_one_key_have_different_noise(tmp_path, plan):
    key = write_key(tmp_path / "one.key")
    found = []
    for name in ("a", "b"):
        with rustle.connect(f"inproc://{new_run(tmp_path / name, plan)}?key_file={key}") as session:
            found.append(rows(session, 3))
    one, other = found
    assert np.isfinite(one).all() and (one != other).mean() > 0.99
    # Independent, not merely different: neither is the other one scaled or shifted.
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 10 / np.sqrt(one.size)


def test_a_connection_to_the_same_folder_has_the_same_noise(tmp_path, plan):
    url = f"inproc://{new_run(tmp_path / 'run', plan)}"
    sums = np.ones(DIMENSION, np.float32)
    with rustle.connect(url) as session:
        first = [session.privatize_(sums.copy(), step, commitment="exact") for step in range(3)]
        cursor = session.cursor(0)
    with rustle.connect(url) as session:
        assert not session.resume(cursor, replay=True)
        again = [session.privatize_(sums.copy(), step, commitment="exact") for step in range(3)]
    assert np.array_equal(first, again)


def test_a_folder_that_lost_its_ledger_is_not_begun_anew(tmp_path, plan):
    folder = new_run(tmp_path / "run", plan)
    with rustle.connect(f"inproc://{folder}") as session:
        lost = rows(session, 2)
    (folder / "ledger.redb").unlink()
    left = sorted(path.name for path in folder.iterdir())
    for _ in range(2):
        with pytest.raises(errors.LedgerMissing, match="rustle ledger init --file") as refused:
            rustle.connect(f"inproc://{folder}")
        assert refused.value.kind == "ledger_missing" and not refused.value.retry_safe
        assert sorted(path.name for path in folder.iterdir()) == left
    if not BINARY.exists():
        return
    # What the messages name as the last resort: a new ledger, and with it new noise under the old key.
    init = [BINARY, "ledger", "init", "--file", folder / "ledger.redb"]
    ended = subprocess.run(init, capture_output=True, text=True)
    assert ended.returncode and "of an earlier ledger" in ended.stderr and "job.key.anchor-" in ended.stderr
    for anchor in folder.glob("*.anchor-*"):
        assert f"move {anchor} away, and begin a new one" in str(refused.value)
        anchor.unlink()
    subprocess.run(init, check=True, capture_output=True)
    with rustle.connect(f"inproc://{folder}") as session:
        assert (rows(session, 2) != lost).mean() > 0.99


def test_a_rewind_to_the_first_row_has_other_noise_each_time(tmp_path, plan):
    with rustle.connect(f"inproc://{new_run(tmp_path / 'run', plan)}") as session:
        found = []
        for _ in range(3):
            found.append(rows(session, 1))
            session.restart()
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        assert (found[one] != found[other]).mean() > 0.99


def test_after_close(session):
    session.close()
    session.close()
    assert session.closed
    for call in (
        session.cursor,
        lambda: session.fetch_into(0, np.empty(DIMENSION, np.float32)),
        lambda: session.plan,
    ):
        with pytest.raises(errors.SessionClosed):
            call()


def child(session, pipe):
    try:
        session.fetch_into(0, np.empty(DIMENSION, np.float32))
    except errors.Forked as error:
        pipe.send(error.kind)
    else:
        pipe.send("gave noise")


def test_after_a_fork(session):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(session, theirs))
    process.start()
    assert ours.poll(60) and ours.recv() == "forked"
    process.join(60)
    assert process.exitcode == 0
    session.fetch_into(0, np.empty(DIMENSION, np.float32))
    with pytest.raises(errors.InvalidArgument, match="pickled"):
        pickle.dumps(session)


def test_threads_never_share_a_step(session):
    given, refused = [], []

    def trainer():
        for _ in range(STEPS):
            try:
                step = session.next_step
                session.privatize_(np.zeros(DIMENSION, np.float32), step)
                given.append(step)
            except (errors.SessionBusy, errors.StepError) as error:
                refused.append(error)

    threads = [threading.Thread(target=trainer) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(given) == len(set(given)) and len(given) + len(refused) == 4 * STEPS


WAITS = """
import signal, sys, numpy as np, rustle
# A shell that runs the tests in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
session = rustle.connect(sys.argv[1])
try:
    print("ready", flush=True)
    session.fetch_into(0, np.empty(session.dimension, np.float32))
except KeyboardInterrupt:
    print("interrupted", session.next_step, flush=True)
"""


def test_ctrl_c_ends_a_wait(cluster):
    stopped = worker_processes(cluster)
    [os.kill(worker, signal.SIGSTOP) for worker in stopped]
    try:
        url = cluster.url().replace("timeout=60", "timeout=600")
        process = subprocess.Popen([sys.executable, "-c", WAITS, url], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        # Most likely it is in the wait by then; if not, the signal ends it a little earlier.
        threading.Event().wait(1.0)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted 0\n"
    finally:
        [os.kill(worker, signal.SIGCONT) for worker in stopped]


def worker_processes(cluster):
    children = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(cluster.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(None, 1) for line in children.stdout.splitlines()]
    found = [int(pid) for pid, words in lines if "worker" in words]
    assert found
    return found


def test_a_cluster_that_is_away(tmp_path):
    with pytest.raises(errors.Unavailable, match=f"the coordinator at unix://{tmp_path}/none.sock") as refused:
        rustle.connect(f"unix://{tmp_path}/none.sock?timeout=1")
    assert refused.value.retry_safe


@pytest.mark.parametrize(
    "url",
    [
        "",
        "inproc",
        "inproc://",
        "http://x",
        "grpc:///x",
        "inproc://x?wrong=1",
        "inproc://x?threads=many",
        "grpcs://x:1",
        "unix://relative",
        "grpc://10.0.0.1:7300",
        "inproc://x?job=a/b",
    ],
)
def test_urls_that_are_refused(url):
    with pytest.raises(errors.InvalidArgument):
        rustle.connect(url)


def test_a_key_that_others_may_read(folder):
    (folder / "job.key").chmod(0o644)
    with pytest.raises(errors.AccessDenied, match="mode"):
        rustle.connect(f"inproc://{folder}")


def test_a_key_is_drawn_once(tmp_path, plan):
    (tmp_path / "a").mkdir()
    plan.save(tmp_path / "a" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path}/a") as session:
        rows(session, 1)
    key = tmp_path / "a" / "job.key"
    assert len(key.read_bytes()) == 32 and key.stat().st_mode & 0o777 == 0o400
    rustle.connect(f"inproc://{tmp_path}/a").close()


def test_a_key_that_is_missing_beside_its_job_is_not_drawn_anew(tmp_path, plan):
    url = f"inproc://{new_run(tmp_path / 'run', plan)}"
    with rustle.connect(url) as session:
        first = rows(session, 1)
        cursor = session.cursor(0)
    key = tmp_path / "run" / "job.key"
    key.rename(tmp_path / "kept")
    for _ in range(2):
        with pytest.raises(errors.AccessDenied, match="missing.*[0-9a-f]{64}") as refused:
            rustle.connect(url)
        assert refused.value.kind == "key" and not key.exists()
    with pytest.raises(errors.NotResumed), rustle.connect(f"{url}?key_file={tmp_path / 'kept'}") as session:
        session.fetch_into(0, np.empty(DIMENSION, np.float32))
    (tmp_path / "kept").rename(key)
    with rustle.connect(url) as session:
        session.resume(cursor)
        assert (rows(session, 1) != first).mean() > 0.99


BEGINS = """
import sys
import rustle

session = None
print("ready", flush=True)
for url in sys.stdin:
    if session is not None:
        session.close()
        session = None
    try:
        session = rustle.connect(url.strip())
        print("opened", flush=True)
    except rustle.errors.RustleError as error:
        print(error.kind, flush=True)
"""


def test_a_folder_that_several_processes_begin_at_once_is_of_one(tmp_path, plan):
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    others = [subprocess.Popen([sys.executable, "-c", BEGINS], **pipes) for _ in range(3)]
    try:
        assert all(other.stdout.readline() == "ready\n" for other in others)
        for number in range(30):
            url = f"inproc://{new_run(tmp_path / str(number), plan)}"
            for other in others:
                print(url, file=other.stdin, flush=True)
            found = sorted(other.stdout.readline().strip() for other in others)
            assert found == ["locked", "locked", "opened"]
    finally:
        for other in others:
            other.communicate(timeout=60)


ENDS_IN_A_WRITE = """
import resource, signal, sys
import rustle

# The first byte that goes to a file ends the process.
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
rustle.connect(sys.argv[1])
"""


def test_an_end_while_the_folder_is_begun(tmp_path, plan):
    plan.save(tmp_path / "plan.toml")
    url = f"inproc://{tmp_path}"
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", ENDS_IN_A_WRITE, url], check=False)
        assert ended.returncode == -signal.SIGXFSZ
    with rustle.connect(url) as session:
        first = rows(session, 1)
    key = tmp_path / "job.key"
    assert len(key.read_bytes()) == 32 and key.stat().st_mode & 0o777 == 0o400
    with rustle.connect(url) as session:
        session.restart()
        assert rows(session, 1).shape == first.shape


def without_layout(folder):
    plan = rustle.plan(float=True, iterations=4, epsilon=4, delta=1e-5, max_participations=1, mechanism="identity")
    plan.save(folder / "plan.toml")
    return f"inproc://{folder}"


@pytest.mark.parametrize("dimension", [0, 2**63, 2**64 - 1])
def test_a_dimension_that_no_layout_has(tmp_path, dimension):
    with pytest.raises(errors.InvalidArgument, match=f"{dimension}.*1 to {2**63 - 1}"):
        rustle.connect(f"{without_layout(tmp_path)}?dimension={dimension}")
    assert [made.name for made in tmp_path.iterdir()] == ["plan.toml"]


@pytest.mark.parametrize("dimension", [2**62, 2**63 - 1])
def test_a_dimension_beyond_any_memory(tmp_path, dimension):
    with rustle.connect(f"{without_layout(tmp_path)}?dimension={dimension}") as session:
        assert session.dimension == dimension
        part = session.fetch_into(0, np.zeros(100, np.float32), (5000, 5100))
        assert part.std() > 0


def test_rows_ahead_change_no_bit(folder, tmp_path, plan):
    found = []
    for number, ahead in enumerate((0, 1, 30)):
        with rustle.connect(f"inproc://{prepared(tmp_path / str(number), plan)}?threads=1") as session:
            session.prefetch(ahead)
            found.append(rows(session, STEPS))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_the_report_says_what_was_released(session, tmp_path):
    rows(session, 5)
    text = session.report(tmp_path / "report.json", delta=1e-5)
    report = json.loads(text)
    assert report["of"] == "job" and report["released"]["rows"] == 5
    before = report["guarantees"][0]["epsilon"]
    assert abs(before - 4) < 1e-3
    session.restart()
    rows(session, 2)
    after = json.loads(session.report(format="json", delta=1e-5))
    assert after["released"]["rows"] == 7 and after["guarantees"][0]["epsilon"] > before
    assert "ε" in session.report(delta=1e-5)
