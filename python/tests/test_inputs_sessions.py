"""Wrong URLs, and wrong arguments of a session's calls."""

import numpy as np
import pytest
from inputs import DIMENSION, SEED, STEPS, TOKEN, check, table, world

import rustle

on = pytest.fixture(scope="module")(world)


def opened(url, **arguments):
    """A call of `rustle.connect`; FOLDER in the URL is the world's."""
    return lambda on: rustle.connect(url.replace("FOLDER", str(on.folder)) if isinstance(url, str) else url, **arguments)


def read_only(on):
    array = np.zeros(DIMENSION, np.float32)
    array.flags.writeable = False
    return array


def written(on, name, data, mode=0o600):
    path = on.folder / name
    path.write_bytes(data)
    path.chmod(mode)
    return path


def of_token(data, mode=0o600):
    def call(on):
        path = written(on, "token", data, mode)
        try:
            rustle.connect(f"grpc://127.0.0.1:1?token_file={path}&timeout=0")
        finally:
            path.unlink()

    return call


def of_key(data, mode=0o400):
    """A call that begins a run under a key's file with these bytes, or without it."""

    def call(on):
        path = on.folder / "named.key"
        if data is not None:
            written(on, path.name, data, mode)
        try:
            rustle.connect(f"inproc://{on.folder / 'new'}?plan={on.folder / 'run' / 'plan.toml'}&key_file={path}")
        finally:
            path.unlink(missing_ok=True)

    return call


NEW = "inproc://FOLDER/new?plan=FOLDER/run/plan.toml"
FORMS = "allowed: inproc://FOLDER"

CONNECT = [
    ("a path", opened("run"), FORMS),
    ("None", opened(None), "url is None; allowed: "),
    ("a Path", lambda on: rustle.connect(on.folder), "url is .*; allowed: a text.*inproc://"),
    ("empty", opened(""), FORMS),
    ("no folder", opened("inproc://"), FORMS),
    ("http", opened("http://localhost:50051"), FORMS),
    ("a capital scheme", opened("GRPC://localhost:1"), FORMS),
    ("an unknown setting", opened("inproc://FOLDER/new?jobs=a"), "jobs.*allowed: plan, job"),
    ("a setting of clusters", opened("inproc://FOLDER/new?timeout=4"), "timeout.*allowed: plan, job"),
    ("threads a word", opened("inproc://FOLDER/new?threads=many"), "threads is \"many\"; allowed: a number of threads"),
    ("threads negative", opened("inproc://FOLDER/new?threads=-1"), "threads is \"-1\"; allowed: "),
    ("dimension a word", opened("inproc://FOLDER/new?dimension=big"), "dimension is \"big\"; allowed: "),
    ("a job of spaces", opened("inproc://FOLDER/new?job=my%20job"), "job"),
    ("adopt a string", opened("inproc://FOLDER/run", adopt="yes"), "adopt is 'yes'; allowed: True, False"),
    ("a second session", lambda on: rustle.connect(on.url), "has a session.*Close it first"),
    ("data set by name", opened("inproc://FOLDER/run", data_set="mails"), "data_set is 'mails'; allowed: a rustle.DataSet"),
    ("blocks without a data set", opened("inproc://FOLDER/run", blocks=["a"]), "blocks are given without"),
    ("blocks a string", opened("inproc://FOLDER/run", blocks="may"), "blocks is 'may'; allowed: a list"),
    ("batches without a data set", opened("inproc://FOLDER/run", batches=1), "batches are given without"),
    ("adopt of a cluster", opened("grpc://127.0.0.1:1", adopt=True), "adopt is True; allowed: False"),
    ("a host beyond this one", opened("grpc://198.51.100.7:1?timeout=0"), "insecure"),
    ("timeout a word", opened("grpc://127.0.0.1:1?timeout=soon"), "timeout is \"soon\"; allowed: seconds"),
    ("timeout negative", opened("grpc://127.0.0.1:1?timeout=-1"), "timeout is -1; allowed: seconds"),
    ("timeout NaN", opened("grpc://127.0.0.1:1?timeout=nan"), "timeout is NaN; allowed: seconds"),
    ("insecure a number", opened("grpc://127.0.0.1:1?insecure=1"), "insecure is \"1\"; allowed: true or false"),
    ("a relative socket", opened("unix://no.sock"), FORMS),
    ("TLS without files", opened("grpcs://127.0.0.1:1"), "tls_dir is missing; allowed: a folder of ca.pem"),
    ("TLS of no folder", opened("grpcs://127.0.0.1:1?tls_dir=FOLDER/tls"), "tls/ca.pem|tls"),
    ("no token file", opened("grpc://127.0.0.1:1?token_file=FOLDER/no.token"), "no.token"),
    ("a token that others read", of_token(TOKEN.encode(), 0o644), "allowed: .*600|allowed: .*owner"),
    ("an empty token", of_token(b""), "allowed: "),
    ("a token of two lines", of_token(TOKEN.encode() + b"\n" + TOKEN.encode()), "allowed: "),
    ("no key's file", of_key(None), "named.key"),
    ("a key cut short", of_key(SEED[:16]), "named.key.*16 bytes.*allowed: .*32"),
    ("a key too long", of_key(SEED + SEED), "named.key.*allowed: .*32"),
    ("an empty key", of_key(b""), "named.key.*allowed: .*32"),
    ("a key of one letter", of_key(b"a" * 32), "named.key.*12 different bytes.*allowed: "),
    ("a key that others read", of_key(SEED, 0o644), "named.key.*0644.*allowed: "),
    ("an unreadable key", of_key(SEED, 0o000), "named.key.*0000.*allowed: "),
    ("a folder for a key", opened(f"{NEW}&key_file=FOLDER/run"), "run.*allowed: "),
    ("a key in no folder", opened(f"{NEW}&key_file=FOLDER/no/job.key"), "no/job.key"),
    ("no plan in a new folder", opened("inproc://FOLDER/new"), "new/plan.toml"),
    ("a dimension that the plan has not", opened(f"{NEW}&dimension=7"), "dimension is 7; allowed: 40"),
    ("nothing listens", opened("grpc://127.0.0.1:1?timeout=0"), "the coordinator at http://127.0.0.1:1, which does not answer"),
    ("no socket", opened("unix:///no/such.sock?timeout=0"), "the coordinator at unix:///no/such.sock, which does not answer"),
    ("shared memory of no socket", opened("shm:///no/such.sock?timeout=0"), "the coordinator at unix:///no/such.sock"),
    ("a port beyond", opened("grpc://127.0.0.1:70000?timeout=0"), "70000"),
    ("mpi outside of mpirun", opened("mpi://"), "mpirun|mpi4py"),
]


def fetch(step=0, buffer=None, **more):
    return lambda on: on.session.fetch_into(step, np.zeros(DIMENSION, np.float32) if buffer is None else buffer(on), **more)


def privatize(step=0, sum=None, *more, **named):
    return lambda on: on.session.privatize_(on.sum if sum is None else sum(on), step, *more, **named)


def zeros(*shape, dtype=np.float32):
    return lambda on: np.zeros(shape, dtype)


CALLS = [
    ("step a string", privatize("0"), "step is '0'; allowed: "),
    ("step None", privatize(None), "step is None; allowed: "),
    ("step a fraction", privatize(0.5), "step is 0.5; allowed: "),
    ("step a bool", privatize(False), "step is False; allowed: "),
    ("step NaN", privatize(float("nan")), "step is nan; allowed: "),
    ("step negative", privatize(-1), "step is -1; allowed: a whole number, 0"),
    ("step skipped", privatize(3), "step is 3; the next one is 0"),
    ("step beyond the plan", privatize(STEPS), "step is 12; the next one is 0"),
    ("step huge", privatize(2**70), "step is \\d+; allowed: "),
    ("sum and step the wrong way round", lambda on: on.session.privatize_(0, on.sum), "a int, which gives no memory"),
    ("a list", privatize(0, lambda on: [0.0] * DIMENSION), "a list, which gives no memory.*allowed: float32"),
    ("None", privatize(0, lambda on: None), "None gives no memory.*allowed: float32"),
    ("float64", privatize(0, zeros(DIMENSION, dtype=np.float64)), "holds float64; allowed: float32"),
    ("float16", privatize(0, zeros(DIMENSION, dtype=np.float16)), "holds float16; allowed: float32"),
    ("int64", privatize(0, zeros(DIMENSION, dtype=np.int64)), "holds int64; allowed: float32"),
    ("objects", privatize(0, zeros(DIMENSION, dtype=object)), "holds object; allowed: float32"),
    ("big endian", privatize(0, zeros(DIMENSION, dtype=">f4")), "holds >f4; allowed: float32"),
    ("too short", privatize(0, zeros(DIMENSION - 1)), "holds 39 values; allowed: 40"),
    ("too long", privatize(0, zeros(DIMENSION + 1)), "holds 41 values; allowed: 40"),
    ("empty", privatize(0, zeros(0)), "holds 0 values; allowed: 40"),
    ("every second", privatize(0, lambda on: np.zeros(2 * DIMENSION, np.float32)[::2]), "not contiguous; allowed: "),
    ("transposed", privatize(0, lambda on: np.zeros((4, 10), np.float32).T), "not contiguous; allowed: "),
    ("read-only", privatize(0, read_only), "read-only; allowed: "),
    ("bytes", privatize(0, lambda on: bytes(4 * DIMENSION)), "allowed: float32"),
    ("NaN in a sum", privatize(0, lambda on: np.full(DIMENSION, np.nan, np.float32)), "not finite"),
    ("divide_by zero", privatize(divide_by=0), "divide_by is 0"),
    ("divide_by negative", privatize(divide_by=-4.0), "divide_by is -4"),
    ("divide_by NaN", privatize(divide_by=float("nan")), "divide_by is (nan|NaN)"),
    ("divide_by a string", privatize(divide_by="4"), "divide_by is '4'; allowed: "),
    ("divide_by None", privatize(divide_by=None), "divide_by is None; allowed: "),
    ("divide_by infinite", privatize(divide_by=float("inf")), "divide_by is inf"),
    ("commitment unknown", privatize(commitment="strict"), "commitment is 'strict'; allowed: declared, exact"),
    ("commitment None", privatize(commitment=None), "commitment is None; allowed: declared, exact"),
    ("range of one", privatize(0, None, 5), "range is 5; allowed: "),
    ("range a string", privatize(0, None, "0:40"), "range is '0:40'; allowed: "),
    ("range of three", privatize(0, None, (0, 1, 2)), r"range is \(0, 1, 2\); allowed: "),
    ("range of strings", privatize(0, None, ("0", "40")), r"range is \('0', '40'\); allowed: "),
    ("range of floats", privatize(0, None, (0.0, 40.0)), r"range is \(0.0, 40.0\); allowed: "),
    ("range backwards", privatize(0, None, (40, 0)), "range is 40..0; allowed: within 0..40"),
    ("range beyond", privatize(0, None, (0, 41)), "range is 0..41; allowed: within 0..40"),
    ("range with steps", privatize(0, None, slice(0, 40, 2)), "range is slice.*allowed: "),
    ("fetch: step a string", fetch("0"), "step is '0'; allowed: "),
    ("fetch: no memory", fetch(0, lambda on: "buffer"), "a str, which gives no memory"),
    ("fetch: int32 without a grid", fetch(0, zeros(DIMENSION, dtype=np.int32)), "holds int32; allowed: float32"),
    ("fetch: commitment a string", fetch(commitment="declared"), "commitment is 'declared'; allowed: .*Commitment"),
    ("fetch: commitment bytes", fetch(commitment=bytes(33)), "commitment is .*; allowed: .*Commitment"),
    ("release_ without a grid", lambda on: on.session.release_(np.zeros(DIMENSION, np.int64), 0), "allowed: a float32 sum"),
    ("release_ of floats", lambda on: on.session.release_(on.sum, 0), "holds float32; allowed: int64"),
    ("prefetch a string", lambda on: on.session.prefetch("4"), "rows is '4'; allowed: "),
    ("prefetch negative", lambda on: on.session.prefetch(-1), "rows is -1; allowed: a whole number, 0"),
    ("prefetch huge", lambda on: on.session.prefetch(2**70), "rows is \\d+; allowed: "),
    ("reserve no step", lambda on: on.session.reserve(steps=0), "steps is 0"),
    ("reserve too many", lambda on: on.session.reserve(steps=5000), "steps is 5000"),
    ("reserve a string", lambda on: on.session.reserve(steps="2"), "steps is '2'; allowed: "),
    ("reserve: commitment", lambda on: on.session.reserve(commitment="declared"), "commitment is 'declared'; allowed: "),
    ("cursor a string", lambda on: on.session.cursor("0"), "step is '0'; allowed: "),
    ("cursor negative", lambda on: on.session.cursor(-1), "step is -1; allowed: "),
    ("cursor ahead", lambda on: on.session.cursor(5), "is 5; allowed: 0 to 0"),
    ("resume None", lambda on: on.session.resume(None), "cursor is of type NoneType; allowed: bytes"),
    ("resume a string", lambda on: on.session.resume("cursor"), "cursor is of type str; allowed: bytes"),
    ("resume a number", lambda on: on.session.resume(3), "cursor is of type int; allowed: bytes"),
    ("resume nothing", lambda on: on.session.resume(b""), "cursor"),
    ("resume other bytes", lambda on: on.session.resume(b"checkpoint" * 9), "cursor"),
    ("restart a string", lambda on: on.session.restart("0"), "step is '0'; allowed: "),
    ("restart ahead", lambda on: on.session.restart(5), "is 5; allowed: 0 to 0"),
    ("clip norms too few", lambda on: on.session.schedule_clip_norms([1.0]), "1 clip norms; allowed: 12"),
    ("clip norms a number", lambda on: on.session.schedule_clip_norms(1.0), "norms is 1.0; allowed: "),
    ("clip norms of strings", lambda on: on.session.schedule_clip_norms(["a"] * STEPS), r"norms\[0\] is 'a'; allowed: "),
    ("clip norms of zero", lambda on: on.session.schedule_clip_norms([0.0] * STEPS), "clip norm of step 0 is 0"),
    ("report: delta a string", lambda on: on.session.report(delta="x"), "delta is 'x'; allowed: "),
    ("report: unit", lambda on: on.session.report(unit="people"), "unit is .people"),
    ("report: no folder", lambda on: on.session.report(on.folder / "no" / "r.md"), "no/r.md.*allowed: "),
    ("finish: a string", lambda on: on.session.finish(destroy_key="no"), "destroy_key is 'no'; allowed: True, False"),
    ("Commitment: a string", lambda on: rustle.Commitment("declared"), "allowed: 33 bytes"),
    ("Commitment: a number", lambda on: rustle.Commitment(33), "allowed: 33 bytes"),
    ("Commitment: too short", lambda on: rustle.Commitment(b"\x01abc"), "4 bytes; allowed: 33 bytes"),
    ("Commitment.declared: a number", lambda on: rustle.Commitment.declared(7), "text is of type int; allowed: "),
    ("Session of a URL", lambda on: rustle.Session("inproc://run"), "rustle.connect"),
]


def on_closed(call):
    return lambda on: call(on.closed, on.sum)


CLOSED = [
    ("privatize_", on_closed(lambda session, sum: session.privatize_(sum, 0)), "session is closed"),
    ("fetch_into", on_closed(lambda session, sum: session.fetch_into(0, sum)), "session is closed"),
    ("cursor", on_closed(lambda session, _: session.cursor()), "session is closed"),
    ("resume", on_closed(lambda session, _: session.resume(bytes(40))), "session is closed|cursor"),
    ("restart", on_closed(lambda session, _: session.restart()), "session is closed"),
    ("reserve", on_closed(lambda session, _: session.reserve()), "session is closed"),
    ("prefetch", on_closed(lambda session, _: session.prefetch(1)), "session is closed"),
    ("skip", on_closed(lambda session, _: session.skip()), "session is closed"),
    ("report", on_closed(lambda session, _: session.report()), "session is closed"),
    ("finish", on_closed(lambda session, _: session.finish()), "session is closed"),
    ("plan", on_closed(lambda session, _: session.plan), "session is closed"),
]


@table(CONNECT)
def test_wrong_urls_are_named(on, row):
    check(row, on)


@table(CLOSED)
def test_calls_of_a_closed_session_say_so(on, row):
    check(row, on)


@table(CALLS)
def test_wrong_arguments_of_a_session_are_named(on, row):
    check(row, on)
