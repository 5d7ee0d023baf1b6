"""Runs that are begun again, taken back, mixed up or overrun, by each adapter: refused, or charged and said."""

import importlib.util
import json

import numpy as np
import pytest
from frameworks import Accelerated, Keras, Lightning, Transformers
from misuse import OTHER_SEED, SEED, STEPS, EngineTraining, Training, batches, planned

import rustle
from rustle import errors

DIMENSION = 39


class Loop:
    """A loop of one's own over `privatize_`."""

    def __init__(self, folder, seed=SEED):
        self.session = rustle.connect(f"inproc://{folder}")
        self.rounds = rustle.Rounds(batches(seed), self.session)

    def step(self, ids):
        self.session.privatize_(np.zeros(DIMENSION, np.float32), self.session.next_step)

    def save(self):
        return self.session.cursor()

    def load(self, state):
        self.session.resume(state)

    def train(self, steps=STEPS):
        for _, ids in zip(range(steps), self.rounds):
            self.step(ids)
            self.last = ids

    def beyond(self):
        assert list(self.rounds) == []
        with pytest.raises(errors.StepError):
            self.step(self.last)


class Torch(Loop):
    """`rustle.torch.attach`."""

    def __init__(self, folder, seed=SEED):
        self.training = Training(folder, seed=seed)
        self.session, self.rounds = self.training.session, self.training.rounds

    def step(self, ids):
        self.training.step(ids)

    def second(self):
        rustle.torch.attach(self.training.optimizer, self.session, self.training.net)

    def save(self):
        return self.training.optimizer.state_dict()

    def load(self, state):
        self.training.optimizer.load_state_dict(state)


class Accelerate(Torch):
    """The same under accelerate, whose checkpoints are folders."""

    def __init__(self, folder, seed=SEED):
        self.training = Accelerated(folder, seed=seed)
        self.session, self.rounds = self.training.session, self.training.rounds
        self._saved = folder.parent / "accelerate"

    def second(self):
        rustle.torch.attach(self.training.optimizer.optimizer, self.session, self.training.net)

    def save(self):
        return self.training.accelerator.save_state(self._saved)

    def load(self, state):
        self.training.accelerator.load_state(state)


class Opacus(Loop):
    """The Opacus engine, whose checkpoints are files."""

    def __init__(self, folder, seed=SEED):
        self.training = EngineTraining(folder, seed=seed)
        self.session, self.rounds = self.training.session, self.training.loader
        self._saved = folder.parent / "saved.pt"

    def step(self, batch):
        self.training.step(*batch)

    def second(self):
        rustle.torch.attach(self.training.optimizer.original_optimizer, self.session, self.training.net)

    def save(self):
        t = self.training
        t.engine.save_checkpoint(path=self._saved, module=t.net, optimizer=t.optimizer)
        return self._saved

    def load(self, state):
        t = self.training
        t.engine.load_checkpoint(path=state, module=t.net, optimizer=t.optimizer)


class Jax(Loop):
    """`rustle.jax.privatizer`."""

    def __init__(self, folder, seed=SEED):
        import jax.numpy as jnp

        import rustle.jax

        super().__init__(folder, seed)
        self.zeros = jnp.zeros(DIMENSION)
        self.privatizer = rustle.jax.privatizer(self.session)
        self.state = None

    def step(self, ids):
        if self.state is None:
            self.state = self.privatizer.init(self.zeros)
        _, self.state = self.privatizer.update(self.zeros, self.state)

    def second(self):
        rustle.jax.privatizer(self.session)

    def load(self, state):
        super().load(state)
        self.state = None


class Federated(Loop):
    """A server of federated training."""

    def __init__(self, folder, seed=SEED):
        super().__init__(folder, seed)
        self.server = self._server()

    def _server(self):
        from rustle.federated import Server

        return Server(self.session, np.zeros(DIMENSION), clients_per_round=15)

    def step(self, ids):
        self.server.step(np.zeros(DIMENSION) for _ in ids)

    def second(self):
        self._server()

    def save(self):
        return self.server.state_dict()

    def load(self, state):
        self.server.load_state_dict(state)


ADAPTERS = [
    (Loop, ()),
    (Torch, ("torch",)),
    (Opacus, ("torch", "opacus")),
    (Lightning, ("torch", "lightning")),
    (Transformers, ("transformers", "accelerate")),
    (Accelerate, ("torch", "accelerate")),
    (Keras, ("keras", "torch")),
    (Jax, ("jax", "optax")),
    (Federated, ()),
]

NAMES = [kind.__name__ for kind, _ in ADAPTERS]


@pytest.fixture(params=ADAPTERS, ids=NAMES)
def adapter(request, tmp_path):
    kind, needs = request.param
    for package in needs:
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    planned(tmp_path / "run", dimension=DIMENSION)
    # With a ledger of its own, unlike folders that tests prepare.
    rustle.Plan.load(tmp_path / "run" / "plan.toml").save(tmp_path / "other" / "plan.toml")
    opened = []

    def make(name="run", **arguments):
        opened.append(kind(tmp_path / name, **arguments))
        return opened[-1]

    yield make
    for one in opened:
        one.session.close()


def epsilon(session):
    return json.loads(session.report(delta=1e-5, format="json"))["guarantees"][0]["epsilon"]


def test_a_run_without_its_checkpoint_is_not_begun_anew(adapter):
    t = adapter()
    t.train(3)
    t.session.close()
    with pytest.raises(errors.NotResumed):
        adapter().train(1)


def test_a_checkpoint_of_other_batches_is_refused(adapter):
    t = adapter()
    t.train(3)
    saved = t.save()
    t.session.close()
    with pytest.raises(errors.BatchesChanged, match="seed"):
        adapter(seed=OTHER_SEED).load(saved)


def test_an_older_checkpoint_is_charged_and_said(adapter):
    t = adapter()
    t.train(3)
    saved = t.save()
    t.train(2)
    before = epsilon(t.session)
    with pytest.warns(errors.BranchOpened, match="branch 1"):
        t.load(saved)
    t.train()
    assert (t.session.next_step, t.session.branch) == (STEPS, 1)
    assert epsilon(t.session) > before > 0 and epsilon(t.session) > 6.05


def test_a_checkpoint_of_another_run_is_refused(adapter):
    t = adapter()
    t.train(1)
    saved = t.save()
    t.session.close()
    other = adapter("other")
    with pytest.raises(errors.CursorMismatch):
        other.load(saved)


def test_steps_end_with_the_plan(adapter):
    t = adapter()
    t.train()
    assert t.session.next_step == STEPS
    t.beyond()
    assert t.session.next_step == STEPS
    assert epsilon(t.session) == pytest.approx(6, rel=1e-6)


@pytest.mark.parametrize("adapter", ADAPTERS[1:], ids=NAMES[1:], indirect=True)
def test_a_session_has_one_trainer(adapter):
    t = adapter()
    with pytest.raises(errors.SessionBusy):
        t.second()
    t.train()
