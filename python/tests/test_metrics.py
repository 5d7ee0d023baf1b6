"""ε, rows and waits for the tools that watch a training."""

import json

import numpy as np
import pytest
from misuse import planned

import rustle
from rustle import errors
from rustle.metrics import Metrics


@pytest.fixture
def session(tmp_path):
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=10)}") as session:
        yield session


def run(session, metrics, steps):
    for _ in range(steps):
        session.privatize_(np.zeros(10, np.float32), session.next_step)
        metrics.log()


def test_figures_are_those_of_the_report(session):
    metrics = Metrics(session, delta=1e-5)
    assert metrics.figures()["rustle/epsilon"] == 0.0
    run(session, metrics, 3)
    session.restart(2)
    run(session, metrics, 1)
    report = json.loads(session.report(delta=1e-5, format="json"))
    found = metrics.figures()
    assert found.pop("rustle/waited_seconds") >= 0
    assert found == {
        "rustle/epsilon": report["released"]["guarantees"][0]["epsilon"],
        "rustle/epsilon_planned": report["guarantees"][0]["epsilon"],
        "rustle/rows": 4.0,
        "rustle/branch": 1.0,
    }
    assert 0 < found["rustle/epsilon"] < found["rustle/epsilon_planned"]


def test_sinks_are_recognised_by_what_they_can_do(session):
    seen = []

    class Board:
        def add_scalar(self, name, value, step):
            seen.append(("scalar", name, step))

    class Flow:
        def log_metrics(self, figures, step=None):
            seen.append(("metrics", sorted(figures)[0], step))

    class Weights:
        """The signature of a run of Weights & Biases."""

        def log(self, data, step=None, commit=None):
            seen.append(("log", sorted(data)[0], step))

    metrics = Metrics(session, Board(), Flow(), Weights(), lambda figures, step: seen.append(("call", "", step)))
    run(session, metrics, 1)
    kinds = [kind for kind, _, _ in seen]
    assert kinds == ["scalar"] * 5 + ["metrics", "log", "call"] and {step for _, _, step in seen} == {1}
    with pytest.raises(errors.InvalidArgument, match="sink is int"):
        Metrics(session, 1)
    with pytest.raises(errors.InvalidArgument, match="every is 0"):
        Metrics(session, every=0)


def test_every_so_many_steps_and_the_last(session):
    steps = []
    run(session, Metrics(session, lambda _, step: steps.append(step), every=5), 12)
    assert steps == [5, 10, 12]


def test_the_sampling_is_that_of_the_rounds(tmp_path):
    plan = rustle.plan(
        float=True,
        iterations=12, epsilon=20, delta=1e-5, max_participations=12, mechanism="identity", dimension=10
    )
    plan.save(tmp_path / "run" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as session:
        drawn = rustle.Batches(rustle.schemes.poisson(0.05), 60, 12, bytes(32))
        plain = Metrics(session, delta=1e-5).figures()["rustle/epsilon_planned"]
        rustle.Rounds(drawn, session)
        assert Metrics(session, delta=1e-5).figures()["rustle/epsilon_planned"] < 0.3 * plain


def test_tensorboard_reads_what_was_written(session, tmp_path):
    pytest.importorskip("tensorboard")
    pytest.importorskip("torch")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "board")) as writer:
        run(session, Metrics(session, writer, delta=1e-5), 3)
    found = EventAccumulator(str(tmp_path / "board")).Reload().Scalars("rustle/rows")
    assert [(event.step, event.value) for event in found] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_mlflow_reads_what_was_written(session, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'flow.db'}")
    with mlflow.start_run() as run_of:
        run(session, Metrics(session, mlflow, delta=1e-5), 2)
    found = mlflow.tracking.MlflowClient().get_metric_history(run_of.info.run_id, "rustle/rows")
    assert [(entry.step, entry.value) for entry in found] == [(1, 1.0), (2, 2.0)]
