"""Parameters and sums whose type noise, which is of real numbers, would be lost in: refused before a row is spent."""

import os

import numpy as np
import pytest
from misuse import planned

import rustle
from rustle import errors, federated, schemes, user_level

TEXT = "is .*; allowed: floating-point numbers"


@pytest.fixture
def session(tmp_path):
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=3)}") as found:
        yield found
        assert found.next_step == 0


@pytest.mark.filterwarnings("ignore::rustle.errors.Unchecked")
def test_torch(session):
    torch = pytest.importorskip("torch")
    import rustle.torch

    net = torch.nn.Module()
    net.z = torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    calls = [
        lambda: rustle.torch.layout(net),
        lambda: rustle.torch.attach(optimizer, session, net, divide_by=15),
        lambda: rustle.torch.Optimizer(optimizer, session, net, divide_by=15),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidArgument, match=f"parameter 'z' is torch.complex64; {TEXT[7:]}"):
            call()
    # Nothing has the session.
    real = torch.nn.Linear(2, 1)
    rustle.torch.attach(torch.optim.SGD(real.parameters(), lr=0.1), session, real, divide_by=15)


@pytest.mark.filterwarnings("ignore::rustle.errors.Unchecked")
@pytest.mark.parametrize("kind", ["complex64", "bool", "int32"])
@pytest.mark.parametrize("jitted", [False, True])
def test_jax(session, kind, jitted):
    jax = pytest.importorskip("jax")
    import rustle.jax

    privatizer = rustle.jax.privatizer(session)
    update = jax.jit(privatizer.update) if jitted else privatizer.update
    sums = {"w": jax.numpy.zeros(3, kind)}
    calls = [
        lambda: rustle.jax.layout(sums),
        lambda: privatizer.init(sums),
        lambda: update(sums, jax.numpy.zeros((), jax.numpy.int32)),
        lambda: rustle.jax.noise(session, 0, sums),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidArgument, match=rf"params\['w'\] {TEXT}"):
            call()


@pytest.mark.parametrize("kind", [np.complex64, bool])
def test_federated(session, kind):
    with pytest.raises(errors.InvalidArgument, match=TEXT):
        federated.Server(session, np.zeros(3, kind), clients_per_round=2)
    server = federated.Server(session, np.zeros(3), clients_per_round=2)
    for call in (lambda: server.step([np.zeros(3, kind)]), lambda: server.apply(np.zeros(3, kind))):
        with pytest.raises(errors.InvalidArgument, match=TEXT):
            call()
    if kind is not bool:
        with pytest.raises(errors.InvalidArgument, match=f"update {TEXT}"):
            federated.clip(np.zeros(3, kind), 1.0)


def test_users(tmp_path):
    plan = rustle.plan(
        float=True, iterations=12, epsilon=6, delta=1e-5, min_sep=4, max_participations=3, mechanism="identity", dimension=3
    )
    (tmp_path / "run").mkdir()
    plan.save(tmp_path / "run" / "plan.toml")
    drawn = rustle.Batches(schemes.uls(2, schemes.fixed_order(4)), [2] * 20, 12, bytes(32))
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as session:
        training = user_level.Training(session, drawn)
        with pytest.raises(errors.InvalidArgument, match=f"gradients {TEXT}"):
            training.noisy_mean(0, np.zeros((len(drawn[0]), 3), np.complex64))
        assert session.next_step == 0


def test_keras():
    pytest.importorskip("torch")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    import rustle.keras

    class Turned(keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(3,), dtype="complex64", initializer="zeros", name="w")

        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((3,)), Turned()])
    with pytest.raises(errors.InvalidArgument, match=f"/w' is complex64; {TEXT[7:]}"):
        rustle.keras.layout(model)
