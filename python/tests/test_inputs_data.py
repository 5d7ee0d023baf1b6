"""Wrong arguments of batches, owners, rounds, begin, data sets and sweeps."""

import datetime

import pytest
from inputs import SEED, STEPS, check, table, world

import rustle
from rustle import schemes

on = pytest.fixture(scope="module")(world)

FIXED = schemes.fixed_order(4)


def batches(scheme=FIXED, population=60, iterations=STEPS, seed=SEED):
    return lambda on: rustle.Batches(scheme, population, iterations, seed)


def begun(**changes):
    """A call of `rustle.begin` with other arguments than those that work."""
    arguments = dict(parameters=[("w", (5, 4))], records=60, batch_size=15, epochs=3, epsilon=4, delta=1e-5)
    folder = changes.pop("folder", "begun")
    return lambda on: rustle.begin(folder, **{**arguments, **changes})


def data_set(name="mails", url="inproc://FOLDER/set", **changes):
    arguments = dict(unit="user", epsilon=4, delta=1e-6)
    return lambda on: rustle.DataSet(
        url.replace("FOLDER", str(on.folder)) if isinstance(url, str) else url, name, **{**arguments, **changes}
    )


BATCHES = [
    ("scheme a string", batches("poisson"), "scheme is 'poisson'; allowed: .*rustle.schemes"),
    ("scheme None", batches(None), "scheme is None; allowed: .*rustle.schemes"),
    ("scheme empty", batches({}), "scheme is {}; allowed: .*rustle.schemes"),
    ("scheme unknown", batches({"kind": "random"}), "random.*(allowed|expected)"),
    ("scheme the function", batches(schemes.poisson), "scheme is <function.*allowed: .*rustle.schemes"),
    ("a number of the scheme a string", lambda on: schemes.fixed_order("4"), "min_sep is '4'; allowed: "),
    ("a number of the scheme negative", lambda on: schemes.fixed_order(-4), "min_sep is -4; allowed: "),
    ("a number of the scheme a float", lambda on: schemes.fixed_order(4.5), "min_sep is 4.5; allowed: "),
    ("probability of two", lambda on: schemes.poisson(2.0), "sampling_probability is 2"),
    ("probability a string", lambda on: schemes.poisson("0.1"), "sampling_probability is '0.1'; allowed: "),
    ("probability NaN", lambda on: schemes.poisson(float("nan")), "sampling_probability is (NaN|nan)"),
    ("cap a string", lambda on: schemes.poisson(0.1, cap="4"), "cap is '4'; allowed: "),
    ("partition unknown", lambda on: schemes.cyclic_poisson(4, 0.1, "thirds"), "thirds"),
    ("population a string", batches(population="60"), "population is '60'; allowed: "),
    ("population None", batches(population=None), "population is None; allowed: "),
    ("population negative", batches(population=-60), "population is -60; allowed: "),
    ("population a float", batches(population=60.0), "population is 60.0; allowed: "),
    ("population of strings", batches(schemes.uls(2, schemes.poisson(0.1)), ["a"]), r"population\[0\] is 'a'; allowed: "),
    ("iterations a string", batches(iterations="12"), "iterations is '12'; allowed: "),
    ("iterations zero", batches(iterations=0), "iterations is 0"),
    ("iterations negative", batches(iterations=-1), "iterations is -1; allowed: "),
    ("seed a string", batches(seed="secret"), "seed is of type str; allowed: 32"),
    ("seed a number", batches(seed=42), "seed is of type int; allowed: 32"),
    ("seed None", batches(seed=None), "seed is of type NoneType; allowed: 32"),
    ("seed too short", batches(seed=SEED[:16]), "the seed has 16 bytes; allowed: exactly 32"),
    ("a round beyond", lambda on: on.batches[STEPS], "round is 12; allowed: 0 to 11"),
    ("a round by name", lambda on: on.batches["first"], "round is 'first'; allowed: "),
    ("rounds backwards", lambda on: on.batches.rounds(4, 2).__next__(), "4"),
    ("seed_file of a folder", lambda on: rustle.Batches.seed_file(on.folder), "allowed: "),
    ("seed_file of a plan", lambda on: rustle.Batches.seed_file(on.folder / "run" / "plan.toml"), "bytes; allowed: 32"),
    ("owners a string", lambda on: rustle.Owners("ann"), "records is 'ann'; allowed: |record.*allowed: "),
    ("owners of numbers", lambda on: rustle.Owners([1, 2]), r"records\[0\] is 1; allowed: "),
    ("one owner a string", lambda on: rustle.Owners([(0, "ann")]), "owners of record 0 are 'ann'; allowed: a list"),
    ("one owner a number", lambda on: rustle.Owners([(0, 7)]), "owners of record 0 are 7; allowed: a list"),
    ("no owner", lambda on: rustle.Owners([(0, [])]), "record 0"),
    ("a record by name", lambda on: rustle.Owners([("first", ["ann"])]), "record.*'first'.*allowed: "),
    ("a negative record", lambda on: rustle.Owners([(-1, ["ann"])]), "record.*-1.*allowed: "),
    ("an owner that is a list", lambda on: rustle.Owners([(0, [["ann"]])]), r"owner.*\['ann'\].*allowed: "),
    ("no file of owners", lambda on: rustle.Owners.read("no.csv"), "path is 'no.csv'; allowed: a file"),
    ("rounds of a scheme", lambda on: rustle.Rounds(FIXED, on.session), "batches is .*; allowed: .*rustle.Batches"),
    ("rounds the wrong way round", lambda on: rustle.Rounds(on.session, on.batches), "batches is Session.*; allowed: .*rustle.Batches"),
    ("rounds of a URL", lambda on: rustle.Rounds(on.batches, on.url), "session is 'inproc.*; allowed: .*rustle.connect"),
    ("rank beyond", lambda on: rustle.Rounds(on.batches, on.session, rank=1), "rank is 1; allowed: 0 to 0"),
    ("rank a string", lambda on: rustle.Rounds(on.batches, on.session, rank="0"), "rank is '0'; allowed: "),
    ("steps_per_epoch zero", lambda on: rustle.Rounds(on.batches, on.session, steps_per_epoch=0), "steps_per_epoch is 0"),
    ("steps_per_epoch a float", lambda on: rustle.Rounds(on.batches, on.session, steps_per_epoch=4.0), "steps_per_epoch is 4.0; allowed: "),
    (
        "batches closer than the plan",
        lambda on: rustle.Rounds(rustle.Batches(schemes.fixed_order(2), 60, STEPS, SEED), on.session),
        "min_sep|participat",
    ),
]

BEGIN = [
    ("folder None", begun(folder=None), "folder is None; allowed: "),
    ("folder a number", begun(folder=7), "folder is 7; allowed: "),
    ("a file for a folder", begun(folder="run/plan.toml"), "run/plan.toml"),
    ("parameters None", begun(parameters=None), "parameters is None; allowed: "),
    ("parameters of a dict", begun(parameters={"w": (5, 4)}), "parameters is {.*allowed: "),
    ("records a string", begun(records="60"), "records is '60'; allowed: "),
    ("records None", begun(records=None), "records is None; allowed: "),
    ("records zero", begun(records=0), "records is 0; allowed: a whole number, 1"),
    ("records a float", begun(records=60.0), "records is 60.0; allowed: "),
    ("batch size zero", begun(batch_size=0), "batch_size is 0; allowed: a whole number, 1"),
    ("batch size a string", begun(batch_size="15"), "batch_size is '15'; allowed: "),
    ("epochs a float", begun(epochs=1.5), "epochs is 1.5; allowed: 1 or more"),
    ("epochs None", begun(epochs=None), "epochs is None; allowed: 1 or more"),
    ("epsilon a string", begun(epsilon="4"), "epsilon is '4'; allowed: "),
    ("epsilon None", begun(epsilon=None), "epsilon is None; allowed: "),
    ("epsilon negative", begun(epsilon=-4), "epsilon.* is -4"),
    ("delta of 1", begun(delta=1), "delta is 1"),
    ("delta a string", begun(delta="small"), "delta is 'small'; allowed: "),
    ("clip norm a string", begun(clip_norm="one"), "clip_norm is 'one'; allowed: "),
    ("clip norm None", begun(clip_norm=None), "clip_norm is None; allowed: "),
    ("clip norm zero", begun(clip_norm=0), "clip_norm is 0"),
    ("poisson a string", begun(poisson="yes"), "poisson is 'yes'; allowed: True, False"),
    ("poisson and a mechanism", begun(poisson=True, mechanism="blt"), "mechanism is blt.*allowed: identity"),
    ("mechanism unknown", begun(mechanism="best"), "mechanism is .?best"),
    ("size a string", begun(mechanism="band-mf", size="4"), "size is '4'; allowed: "),
]

DATA_SETS = [
    ("url of a cluster", data_set(url="grpc://host:1"), "allowed: inproc://FOLDER"),
    ("url None", data_set(url=None), "url is None; allowed: "),
    ("name None", data_set(name=None), "name is None; allowed: "),
    ("name with a slash", data_set(name="a/b"), "a/b"),
    ("name empty", data_set(name=""), "allowed: "),
    ("unit unknown", data_set(unit="people"), "unit is .people"),
    ("epsilon a string", data_set(epsilon="4"), "epsilon is '4'; allowed: "),
    ("epsilon negative", data_set(epsilon=-4), "epsilon is -4"),
    ("epsilon NaN", data_set(epsilon=float("nan")), "epsilon is (NaN|nan)"),
    ("delta of 1", data_set(delta=1), "delta is 1"),
    ("relation unknown", data_set(neighbouring="swap"), "neighbouring is .?swap"),
    ("per_block a string", data_set(per_block="yes"), "per_block is 'yes'; allowed: True, False"),
]


def on_set(call):
    return lambda on: call(on.data)


def sweep(**changes):
    arguments = dict(mean=4, space={"rate": [0.1, 0.2]})
    return lambda on: rustle.Sweep(
        changes.get("data_set", on.data), changes.get("name", "rates"),
        **{**arguments, "plan": on.plan, **{k: v for k, v in changes.items() if k not in ("data_set", "name")}},
    )


OF_A_SET = [
    ("grant a string", on_set(lambda data: data.grant(epsilon="8", delta=1e-6)), "epsilon is '8'; allowed: "),
    ("grant None", on_set(lambda data: data.grant(epsilon=None, delta=1e-6)), "epsilon is None; allowed: "),
    ("a block without name", on_set(lambda data: data.add_block(None, start="2026-01-01", until="2026-02-01")), "block is None; allowed: "),
    ("a block of no day", on_set(lambda data: data.add_block("a", start="yesterday", until="2026-02-01")), "yesterday"),
    ("a block of a number", on_set(lambda data: data.add_block("a", start=20260101, until="2026-02-01")), "start is 20260101; allowed: "),
    (
        "a block of an hour",
        on_set(lambda data: data.add_block("a", start=datetime.datetime(2026, 1, 1), until="2026-02-01")),
        "allowed: a datetime.date",
    ),
    ("a block backwards", on_set(lambda data: data.add_block("a", start="2026-02-01", until="2026-01-01")), "2026-0"),
    ("half a budget", on_set(lambda data: data.add_block("a", start="2026-01-01", until="2026-02-01", epsilon=1)), "both, or neither"),
    ("a report of no format", on_set(lambda data: data.report(format="pdf")), "format is .pdf.; allowed: "),
    ("a report in no folder", on_set(lambda data: data.report("no/r.md")), "no/r.md.*allowed: "),
    ("sweep of a name", sweep(data_set="mails"), "data_set is 'mails'; allowed: a rustle.DataSet"),
    ("sweep without a data set", sweep(data_set=None), "data_set is None; allowed: a rustle.DataSet"),
    ("sweep name None", sweep(name=None), "name is None; allowed: "),
    ("sweep plan a path", sweep(plan="plan.toml"), "plan is 'plan.toml'; allowed: a rustle.Plan"),
    ("sweep mean a string", sweep(mean="4"), "mean is '4'; allowed: "),
    ("sweep mean negative", sweep(mean=-4), "mean is -4"),
    ("sweep mean None", sweep(mean=None), "mean is None; allowed: "),
    ("sweep shape a string", sweep(shape="geometric"), "shape is 'geometric'; allowed: "),
    ("sweep shape negative", sweep(shape=-1), "shape is -1"),
    ("sweep space a list", sweep(space=[1, 2]), r"space is \[1, 2\]; allowed: "),
    ("sweep space a number", sweep(space={"rate": 0.1}), "space.*'rate'.*0.1; allowed: "),
    ("sweep space empty", sweep(space={"rate": []}), "no values of 'rate'; allowed: one or more"),
]


@table(BATCHES)
def test_wrong_arguments_of_batches_are_named(on, row):
    check(row, on)


@table(BEGIN)
def test_wrong_arguments_of_begin_are_named(on, row):
    check(row, on)


@table(DATA_SETS)
def test_wrong_arguments_of_data_sets_are_named(on, row):
    check(row, on)


@table(OF_A_SET)
def test_wrong_arguments_of_what_a_data_set_does_are_named(on, row):
    if not hasattr(on, "data"):
        on.data = rustle.DataSet(f"inproc://{on.folder / 'data'}", "mails", unit="user", epsilon=40, delta=1e-6)
    check(row, on)
