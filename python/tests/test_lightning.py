"""Lightning: optimization of both kinds, its loaders and its checkpoints."""

import pytest
from misuse import PER_EPOCH, RECORDS, SIZE, STEPS, batches, planned

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

import rustle
import rustle.torch
from rustle import errors


class Model(lightning.LightningModule):
    def __init__(self, session, automatic):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
        self.session, self.automatic_optimization = session, automatic

    def training_step(self, batch, index):
        x, y = batch
        loss = 0.01 * torch.nn.functional.cross_entropy(self.net(x), y)
        if self.automatic_optimization:
            return loss
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return None

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, self.session, self, divide_by=SIZE)
        return optimizer


@pytest.fixture
def session(tmp_path):
    dimension = sum(p.numel() for p in Model(None, True).parameters())
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=dimension)}") as session:
        yield session


def trainer(**arguments):
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
    return lightning.Trainer(**{**quiet, "enable_checkpointing": False, **arguments})


def data():
    return torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,)))


@pytest.mark.parametrize("automatic", [True, False])
def test_epochs_of_the_trainer_are_those_of_the_rounds(session, automatic):
    rounds = rustle.Rounds(batches(), session, steps_per_epoch=PER_EPOCH)
    loader = rustle.torch.DataLoader(data(), rounds)
    made = trainer(max_epochs=STEPS // PER_EPOCH)
    made.fit(Model(session, automatic), loader)
    assert session.next_step == made.global_step == STEPS


@pytest.mark.parametrize("automatic", [True, False])
def test_its_own_loader_is_refused(session, automatic):
    rustle.Rounds(batches(), session)
    loader = torch.utils.data.DataLoader(data(), batch_size=SIZE, shuffle=True)
    with pytest.raises(errors.StepError, match="another loader"):
        trainer(max_epochs=1).fit(Model(session, automatic), loader)
    assert session.next_step == 0


def test_accumulated_batches_are_refused(session):
    loader = rustle.torch.DataLoader(data(), rustle.Rounds(batches(), session))
    with pytest.raises(errors.StepError, match="met no noise"):
        trainer(max_epochs=1, accumulate_grad_batches=2).fit(Model(session, True), loader)
    assert session.next_step == 0


def test_checkpoints_resume(session, tmp_path):
    rounds = rustle.Rounds(batches(), session, steps_per_epoch=PER_EPOCH)
    made = trainer(max_epochs=1)
    made.fit(Model(session, True), rustle.torch.DataLoader(data(), rounds))
    made.save_checkpoint(tmp_path / "saved.ckpt")
    session.close()
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as again:
        # Lightning loads the optimizer's state, and with it the cursor, before it begins the loader.
        rounds = rustle.Rounds(batches(), again, steps_per_epoch=PER_EPOCH)
        model = Model(again, True)
        trainer(max_epochs=3).fit(
            model, rustle.torch.DataLoader(data(), rounds), ckpt_path=tmp_path / "saved.ckpt", weights_only=False
        )
        assert (again.next_step, again.branch) == (STEPS, 0)


def watched(session, **arguments):
    import rustle.lightning

    return rustle.lightning.Callback(session, *arguments.pop("sinks", ()), delta=1e-5, **arguments)


def test_the_callback_logs_what_the_run_has_cost(session, tmp_path):
    rounds = rustle.Rounds(batches(), session, steps_per_epoch=PER_EPOCH)
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    made = trainer(max_epochs=3, callbacks=[watched(session, every=4)], logger=logger)
    made.fit(Model(session, True), rustle.torch.DataLoader(data(), rounds))
    with open(tmp_path / "lightning_logs" / "version_0" / "metrics.csv") as file:
        head, *lines = file.read().split()
    rows = [line.split(",")[head.split(",").index("rustle/rows")] for line in lines]
    assert rows == ["4.0", "8.0", "12.0"]


@pytest.mark.parametrize("wrong", ["loader", "noise", "accumulated"])
def test_the_callback_refuses_a_training_that_is_not_private(session, wrong):
    steps = []
    callback = watched(session, sinks=(lambda _, step: steps.append(step),))
    model = Model(session, True)
    if wrong == "noise":
        model.configure_optimizers = lambda: torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data(), batch_size=SIZE)
    if wrong != "loader":
        loader = rustle.torch.DataLoader(data(), rustle.Rounds(batches(), session))
    text = {"loader": "nothing checks", "noise": "has no noise", "accumulated": "2 batches are accumulated"}[wrong]
    accumulated = 2 if wrong == "accumulated" else 1
    with pytest.raises(errors.InvalidArgument, match=text):
        trainer(max_epochs=1, callbacks=[callback], accumulate_grad_batches=accumulated).fit(model, loader)
    assert session.next_step == 0 and not steps


@pytest.mark.parametrize("clipped", [0.0, 0.5])
def test_the_callback_refuses_sums_that_are_clipped_on_a_grid(tmp_path, clipped):
    dimension = sum(p.numel() for p in Model(None, True).parameters())
    plan = rustle.Plan.load(planned(tmp_path / "float", dimension=dimension) / "plan.toml")
    plan.on_grid(1e-4).save(tmp_path / "run" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as session:
        loader = rustle.torch.DataLoader(data(), rustle.Rounds(batches(), session))
        made = trainer(max_steps=1, callbacks=[watched(session)], gradient_clip_val=clipped)
        if clipped:
            with pytest.raises(errors.InvalidArgument, match="gradient_clip_val is 0.5"):
                made.fit(Model(session, True), loader)
        else:
            made.fit(Model(session, True), loader)
        assert session.next_step == (0 if clipped else 1)


def test_noise_is_not_attached_to_a_wrapper(session):
    net = Model(session, True)
    wrapped = lightning.pytorch.core.optimizer.LightningOptimizer(torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(errors.InvalidArgument, match="configure_optimizers"):
        rustle.torch.attach(wrapped, session, net)


def test_clipped_sums_within_manual_optimization(session):
    """Per-example clipping by `clipped_sum` where the loss of a batch would not be clipped."""

    class Clipped(Model):
        def training_step(self, batch, index):
            optimizer = self.optimizers()
            loss = lambda net, x, y: torch.nn.functional.cross_entropy(net(x), y)
            norm = self.session.plan.clip_norm
            rustle.torch.clipped_sum(self.net, loss, *batch, clip_norm=norm, divide_by=SIZE)
            optimizer.step()

    rounds = rustle.Rounds(batches(), session, steps_per_epoch=PER_EPOCH)
    made = trainer(max_epochs=3, callbacks=[watched(session, sinks=(lambda *_: None,))])
    made.fit(Clipped(session, False), rustle.torch.DataLoader(data(), rounds))
    assert session.next_step == STEPS
