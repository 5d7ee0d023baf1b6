"""Wrong arguments of the adapters whose packages are seldom there: Keras, Flower, NVFlare, Ray, Lightning and MPI."""

import os

import numpy as np
import pytest
from inputs import check, table, world

import rustle
from rustle import federated


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    for made in world(tmp_path_factory):
        made.rounds = rustle.Rounds(made.batches, made.session)
        yield made


def keras_package():
    """Keras on a backend that is here: by default it takes TensorFlow, and ends where there is none."""
    backends = [name for name in ("torch", "jax") if importable(name)]
    if not backends:
        pytest.skip("neither torch nor jax is here")
    before = os.environ.setdefault("KERAS_BACKEND", backends[0])
    try:
        pytest.importorskip("keras")
        return pytest.importorskip("rustle.keras")
    finally:
        if before == backends[0]:
            os.environ.pop("KERAS_BACKEND", None)


def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def keras_fit(**changes):
    def call(on):
        adapter = keras_package()
        import keras

        model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(5)])
        model.compile(optimizer="sgd", loss="mse")
        x, y = np.zeros((60, 7), np.float32), np.zeros((60, 5), np.float32)
        given = {"model": model, "x": x, "y": y, "rounds": on.rounds, "divide_by": 15, **changes}
        return adapter.fit(given.pop("model"), given.pop("x"), given.pop("y"), **given)

    return call


KERAS = [
    ("a path for a model", keras_fit(model="model.keras"), "model is 'model.keras'; allowed: .*keras.Model"),
    ("no model", keras_fit(model=None), "model is None; allowed: .*keras.Model"),
    ("batches for rounds", lambda on: keras_fit(rounds=on.batches)(on), "rounds is .*; allowed: rustle.Rounds"),
    ("a session for rounds", lambda on: keras_fit(rounds=on.session)(on), "rounds is .*; allowed: rustle.Rounds"),
    ("divide_by a string", keras_fit(divide_by="15"), "divide_by is '15'; allowed: "),
    ("divide_by zero", keras_fit(divide_by=0), "divide_by is 0; allowed: "),
    ("divide_by NaN", keras_fit(divide_by=float("nan")), "divide_by is nan; allowed: "),
    ("microbatch a float", keras_fit(microbatch=2.5), "microbatch is 2.5; allowed: "),
    ("microbatch zero", keras_fit(microbatch=0), "microbatch is 0; allowed: a whole number, 1"),
    ("epochs a string", keras_fit(epochs="3"), "epochs is '3'; allowed: "),
    ("epochs negative", keras_fit(epochs=-1), "epochs is -1; allowed: "),
    ("delta a string", keras_fit(delta="1e-5"), "delta is '1e-5'; allowed: "),
    ("no examples", keras_fit(x=None), "x is None; allowed: examples along the first axis"),
    ("ragged examples", keras_fit(x=[[1.0], [1.0, 2.0]]), "x is .*; allowed: examples along the first axis"),
    ("labels a number", keras_fit(y=3), "y is 3; allowed: examples along the first axis"),
    ("another number of labels", keras_fit(y=np.zeros((7, 5))), "y has 7 labels; allowed: 60"),
    ("layout of no model", lambda on: keras_package().layout("model.keras"), "model is 'model.keras'; allowed: a keras.Model"),
]


@table(KERAS)
def test_wrong_arguments_for_keras_are_named(on, row):
    keras_package()
    check(row, on)


def there(adapter):
    """An adapter, where its packages are. Not within a call of a table, where a skip would count as its refusal."""
    return pytest.importorskip(adapter, exc_type=ImportError)


def flower(call):
    return lambda on: call(there("rustle.federated.flower"), on)


FLOWER = [
    ("a session for a server", flower(lambda flower, on: flower.Strategy(on.session)), "server is .*; allowed: a Server or AdaptiveServer"),
    ("no server", flower(lambda flower, on: flower.Strategy(None)), "server is None; allowed: a Server"),
    ("a URL for a server", flower(lambda flower, on: flower.Strategy("inproc://run")), "server is 'inproc://run'; allowed: a Server"),
    ("arrays of a model", flower(lambda flower, on: flower.arrays(np.zeros(40))), "server is .*; allowed: a Server"),
    ("arrays of None", flower(lambda flower, on: flower.arrays(None)), "server is None; allowed: a Server"),
]


@table(FLOWER)
def test_wrong_arguments_for_flower_are_named(on, row):
    there("rustle.federated.flower")
    check(row, on)


OF_A_SERVER = [
    ("identity a name", {"identity": "partition-id"}, "identity is 'partition-id'; allowed: a function"),
    ("fraction a string", {"fraction_evaluate": "half"}, "fraction_evaluate is 'half'; allowed: a number"),
]


@table(OF_A_SERVER)
def test_wrong_arguments_of_a_strategy_are_named(on, row):
    flower = there("rustle.federated.flower")
    name, changes, words = row
    server = federated.Server(on.session, np.zeros(on.session.dimension), clients_per_round=4)
    try:
        check((name, lambda _: flower.Strategy(server, **changes), words), on)
    finally:
        on.session.release(server)


def aggregator(**changes):
    def call(on):
        adapter = there("rustle.federated.nvflare")
        return adapter.Aggregator(**{"folder": str(on.folder / "run"), "clients_per_round": 4, **changes})

    return call


NVFLARE = [
    ("folder None", aggregator(folder=None), "folder is None; allowed: a path"),
    ("folder a number", aggregator(folder=7), "folder is 7; allowed: a path"),
    ("clients a string", aggregator(clients_per_round="4"), "clients_per_round is '4'; allowed: "),
    ("clients zero", aggregator(clients_per_round=0), "clients_per_round is 0; allowed: "),
    ("learning rate a string", aggregator(learning_rate="0.1"), "learning_rate is '0.1'; allowed: "),
    ("learning rate NaN", aggregator(learning_rate=float("nan")), "learning_rate is nan; allowed: "),
    ("momentum one", aggregator(momentum=1.0), "momentum is 1.0; allowed: "),
]


@table(NVFLARE)
def test_wrong_arguments_for_nvflare_are_named(on, row):
    there("rustle.federated.nvflare")
    check(row, on)


def started(**changes):
    def call(on):
        return there("rustle.ray").start(changes.get("folder", on.folder / "run"), **{k: v for k, v in changes.items() if k != "folder"})

    return call


RAY = [
    ("folder None", started(folder=None), "folder is None; allowed: a path"),
    ("a folder without a plan", started(folder="empty"), "empty/plan.toml is missing; allowed: "),
    ("workers a string", started(workers="2"), "workers is '2'; allowed: a whole number, 1"),
    ("workers zero", started(workers=0), "workers is 0; allowed: a whole number, 1"),
    ("workers a fraction", started(workers=1.5), "workers is 1.5; allowed: "),
    ("job None", started(job=None), "job is None; allowed: a text"),
    ("dimension a string", started(dimension="40"), "dimension is '40'; allowed: a whole number"),
    ("another dimension than the plan's", started(dimension=41), "dimension is 41; allowed: 40, as in the plan's layout"),
    ("CPUs a string", started(cpus_per_worker="all"), "cpus_per_worker is 'all'; allowed: a number"),
    ("CPUs negative", started(cpus_per_worker=-1), "cpus_per_worker is -1; allowed: 0 or more"),
    ("options a list", started(worker_options=["gpu"]), r"worker_options is \['gpu'\]; allowed: a dict"),
    ("program a number", started(program=3), "program is 3; allowed: a path"),
    ("no such program", started(program="/no/rustle"), "not at /no/rustle; allowed: program="),
]


@table(RAY)
def test_wrong_arguments_for_ray_are_named(on, row):
    there("rustle.ray")
    check(row, on)


def callback(*sinks, **changes):
    def call(on):
        adapter = there("rustle.lightning")
        return adapter.Callback(changes.get("session", on.session), *sinks, **{k: v for k, v in changes.items() if k != "session"})

    return call


LIGHTNING = [
    ("a session of a URL", callback(session="inproc://run"), "session is 'inproc://run'; allowed: .*rustle.connect"),
    ("no session", callback(session=None), "session is None; allowed: .*rustle.connect"),
    ("a sink that is a number", callback(3), "sink is int; allowed: "),
    ("every zero", callback(every=0), "every is 0; allowed: "),
    ("every a string", callback(every="10"), "every is '10'; allowed: "),
    ("delta a string", callback(delta="x"), "delta is 'x'; allowed: "),
]


@table(LIGHTNING)
def test_wrong_arguments_for_lightning_are_named(on, row):
    there("rustle.lightning")
    check(row, on)


def launch(settings, **arguments):
    return lambda on: rustle.connect(f"mpi://{settings}", **arguments)


MPI = [
    ("a host", launch("node-1"), "url is 'mpi://node-1'; allowed: mpi://\\?window"),
    ("an unknown setting", launch("?plan=p.toml"), "plan=p.toml.*allowed: mpi://\\?window"),
    ("a window of words", launch("?window=1GiB"), "window=1GiB.*allowed: mpi://\\?window"),
    ("a window below zero", launch("?window=-1"), "window=-1.*allowed: mpi://\\?window"),
    ("a time limit of words", launch("?time_limit=soon"), "time_limit=soon.*allowed: mpi://\\?window"),
    ("a time limit of zero", launch("?time_limit=0"), "time_limit=0.*allowed: mpi://\\?window"),
    ("a time limit of NaN", launch("?time_limit=nan"), "time_limit=nan.*allowed: mpi://\\?window"),
    ("a setting without a value", launch("?window"), "allowed: mpi://\\?window"),
    ("adopt", launch("", adopt=True), "adopt is True; allowed: False"),
    ("a data set by name", launch("", data_set="mails"), "data_set is 'mails'; allowed: a rustle.DataSet"),
]


@table(MPI)
def test_wrong_urls_of_a_launch_are_named(on, row):
    check(row, on)


OF_MPI = [
    ("a short secret", lambda mpi: mpi.exact(np.zeros(4), secret=b"seed", row=0), "secret has 4 bytes; allowed: 32"),
    ("a secret that is a text", lambda mpi: mpi.exact(np.zeros(4), secret="s" * 32, row=0), "secret is of type str; allowed: 32"),
    ("a row below zero", lambda mpi: mpi.exact(np.zeros(4), secret=bytes(32), row=-1), "row is -1; allowed: "),
    ("a row that is a text", lambda mpi: mpi.exact(np.zeros(4), secret=bytes(32), row="0"), "row is '0'; allowed: "),
    ("a declaration that is a text", lambda mpi: mpi.declared("batch 7"), "content is of type str; allowed: bytes"),
    ("a digest cut short", lambda mpi: mpi.join(plan_digest=b"abc"), "plan_digest has 3 bytes; allowed: 32"),
    ("a dimension below zero", lambda mpi: mpi.join(dimension=-1), "dimension is -1; allowed: "),
    ("a window that is a text", lambda mpi: mpi.join(window_bytes="1GiB"), "window_bytes is '1GiB'; allowed: "),
    ("a time limit of zero", lambda mpi: mpi.join(time_limit=0), "time_limit is 0; allowed: "),
]


@table(OF_MPI)
def test_wrong_arguments_of_a_launch_are_named(row):
    """The file runs without the rest of the package, whose errors it has not."""
    mpi = there("rustle.mpi")
    _, call, words = row
    with pytest.raises(ValueError, match=words):
        call(mpi)


