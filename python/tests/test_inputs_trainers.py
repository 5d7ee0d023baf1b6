"""Wrong arguments of the adapters for PyTorch, Opacus and JAX."""

import numpy as np
import pytest
from inputs import check, table, world

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import schemes


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    for made in world(tmp_path_factory):
        dress(made)
        yield made


def dress(on):
    """Gives a world a model, its optimizer and examples."""
    torch.manual_seed(0)
    on.net = torch.nn.Linear(7, 5)
    on.optimizer = torch.optim.SGD(on.net.parameters(), lr=0.1)
    on.x, on.y = torch.randn(6, 7), torch.randint(0, 5, (6,))


def attach(**changes):
    def call(on):
        given = {"optimizer": on.optimizer, "session": on.session, "model": on.net, **changes}
        return rustle.torch.attach(given.pop("optimizer"), given.pop("session"), given.pop("model"), **given)

    return call


def loss(model, x, y):
    return torch.nn.functional.cross_entropy(model(x), y)


def clipped(*examples, model=None, loss=loss, **changes):
    def call(on):
        given = examples or (on.x, on.y)
        return rustle.torch.clipped_sum(model or on.net, loss, *given, **{"clip_norm": 1.0, **changes})

    return call


TORCH = [
    ("attach: a session of a URL", attach(session="inproc://run"), "session is 'inproc://run'; allowed: .*rustle.connect"),
    ("attach: no optimizer", attach(optimizer=None), "optimizer is .*NoneType; allowed: a torch.optim"),
    ("attach: a model's parameters", lambda on: attach(model=on.net.parameters())(on), "model is .*; allowed: .*named_parameters"),
    ("attach: a path", attach(model="model.pt"), "model is 'model.pt'; allowed: .*named_parameters"),
    ("attach: another model", attach(model=torch.nn.Linear(3, 5)), "20 coordinates.*40"),
    ("attach: divide_by a string", attach(divide_by="15"), "divide_by is '15'; allowed: "),
    ("attach: divide_by None", attach(divide_by=None), "divide_by is None; allowed: "),
    ("attach: divide_by zero", attach(divide_by=0), "divide_by is 0; allowed: "),
    ("attach: divide_by NaN", attach(divide_by=float("nan")), "divide_by is nan; allowed: "),
    ("attach: divide_by infinite", attach(divide_by=float("inf")), "divide_by is inf; allowed: "),
    ("attach: records a string", attach(records="15"), "records is '15'; allowed: "),
    ("attach: records negative", attach(records=-15), "records is -15; allowed: "),
    ("attach: commitment", attach(commitment="strict"), "commitment is 'strict'; allowed: declared, exact"),
    ("attach: commitment None", attach(commitment=None), "commitment is None; allowed: declared, exact"),
    ("attach: reduce a string", attach(reduce="sum"), "reduce is 'sum'; allowed: True, False"),
    ("clipped_sum: a function", clipped(model=lambda x: x), "model is .*; allowed: a torch.nn.Module"),
    ("clipped_sum: no loss", clipped(loss=None), "loss is None; allowed: a function"),
    ("clipped_sum: clip norm a string", clipped(clip_norm="1"), "clip_norm is '1'; allowed: "),
    ("clipped_sum: clip norm None", clipped(clip_norm=None), "clip_norm is None; allowed: "),
    ("clipped_sum: clip norm infinite", clipped(clip_norm=float("inf")), "clip_norm is inf; allowed: "),
    ("clipped_sum: divide_by zero", clipped(divide_by=0), "divide_by is 0; allowed: "),
    ("clipped_sum: microbatch zero", clipped(microbatch=0), "microbatch is 0; allowed: "),
    ("clipped_sum: microbatch a float", clipped(microbatch=2.5), "microbatch is 2.5; allowed: "),
    ("clipped_sum: arrays", clipped(np.zeros((6, 7), np.float32), np.zeros(6)), r"examples\[0\] is .*; allowed: a tensor"),
    ("clipped_sum: two lengths", lambda on: clipped(on.x, on.y[:4])(on), r"lengths \[6, 4\]; allowed: one length"),
    ("clipped_sum: a number", clipped(torch.tensor(1.0)), r"examples\[0\] is .*; allowed: a tensor"),
    ("DataLoader: batches", lambda on: rustle.torch.DataLoader([0] * 60, on.batches), "rounds is .*; allowed: rustle.Rounds"),
    ("DataLoader: None", lambda on: rustle.torch.DataLoader([0] * 60, None), "rounds is None; allowed: rustle.Rounds"),
    ("BatchSampler: rank", lambda on: rustle.torch.BatchSampler(on.batches, rank=2), "rank is 2; allowed: 0 to 0"),
    ("BatchSampler: a scheme", lambda on: rustle.torch.BatchSampler(schemes.fixed_order(4)), "batches is .*; allowed: rustle.Batches"),
    ("in_order: a data set", lambda on: rustle.torch.in_order([0] * 60, on.session), "loader is .*; allowed: a torch.utils.data.DataLoader"),
    ("layout: parameters", lambda on: rustle.torch.layout(on.net.parameters()), "model is .*; allowed: .*named_parameters"),
    ("layout: None", lambda on: rustle.torch.layout(None), "model is None; allowed: .*named_parameters"),
]


@table(TORCH)
def test_wrong_arguments_for_pytorch_are_named(on, row):
    check(row, on)


def engine(**changes):
    def call(on):
        opacus = pytest.importorskip("rustle.opacus")
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(60, 7)), batch_size=15)
        given = {"module": on.net, "optimizer": on.optimizer, "data_loader": loader, **changes}
        return opacus.PrivacyEngine().make_private(**given)

    return call


OWN = dict(noise_multiplier=1.0, max_grad_norm=1.0, epochs=3)

OPACUS = [
    ("no plan and no number", engine(), "plan is missing; allowed: "),
    ("a plan that is a number", engine(plan=4.0), "plan is 4.0; allowed: "),
    ("a plan without its folder", lambda on: engine(plan=on.plan)(on), "noise is missing; allowed: "),
    ("noise a number", lambda on: engine(plan=on.plan, noise=1.0)(on), "url is 1.0; allowed: a text such as 'inproc:"),
    ("batches a scheme", lambda on: engine(plan=on.plan, noise=on.session, batches=schemes.fixed_order(4))(on), "batches is .*; allowed: rustle.Batches"),
    ("noise multiplier a string", engine(**{**OWN, "noise_multiplier": "1"}), "noise_multiplier is '1'; allowed: "),
    ("noise multiplier NaN", engine(**{**OWN, "noise_multiplier": float("nan")}), "noise_multiplier is nan; allowed: "),
    ("clip norms of each", engine(**{**OWN, "max_grad_norm": [1.0]}), r"max_grad_norm is \[1.0\]; allowed: one number"),
    ("clip norm a string", engine(**{**OWN, "max_grad_norm": "1"}), "max_grad_norm is 1; allowed: one number|max_grad_norm is '1'"),
    ("epochs missing", engine(noise_multiplier=1.0, max_grad_norm=1.0), "epochs is None; allowed: "),
    ("epochs a float", engine(**{**OWN, "epochs": 1.5}), "epochs is 1.5; allowed: "),
    ("folder a number", engine(**OWN, folder=3), "folder is 3; allowed: "),
    ("divide_by a string", lambda on: engine(plan=on.plan, noise=on.session, divide_by="4")(on), "divide_by is '4'; allowed: "),
    ("clipping by layer", lambda on: engine(plan=on.plan, noise=on.session, clipping="per_layer")(on), "clipping is 'per_layer'; allowed: flat"),
]


@table(OPACUS)
def test_wrong_arguments_for_opacus_are_named(on, row):
    check(row, on)


def privatizer(**changes):
    def call(on):
        jax = pytest.importorskip("rustle.jax")
        return jax.privatizer(changes.get("session", on.session), **{k: v for k, v in changes.items() if k != "session"})

    return call


def of_jax(call):
    return lambda on: call(pytest.importorskip("rustle.jax"), on)


JAX = [
    ("a session of a URL", privatizer(session="inproc://run"), "session is 'inproc://run'; allowed: .*rustle.connect"),
    ("divide_by a string", privatizer(divide_by="4"), "divide_by is '4'; allowed: "),
    ("divide_by None", privatizer(divide_by=None), "divide_by is None; allowed: "),
    ("divide_by zero", privatizer(divide_by=0), "divide_by is 0; allowed: "),
    ("records a string", privatizer(records="4"), "records is '4'; allowed: "),
    ("commitment", privatizer(commitment="strict"), "commitment is 'strict'; allowed: declared, exact"),
    ("layout of a text", of_jax(lambda jax, on: jax.layout({"w": "a"})), r"\['w'\] is 'a'; allowed: an array"),
    ("skip without a privatizer", of_jax(lambda jax, on: jax.skip(on.session, 0)), "no privatizer; allowed: "),
    ("noise: step a string", of_jax(lambda jax, on: jax.noise(on.session, "0", np.zeros(40))), "step is '0'; allowed: "),
]


@table(JAX)
def test_wrong_arguments_for_jax_are_named(on, row):
    check(row, on)
