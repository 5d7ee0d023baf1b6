"""Layers that are frozen or unfrozen in the middle of a training: `LayoutMismatch`, before the step's row is spent."""

import pytest
from misuse import PER_EPOCH, RECORDS, SIZE, STEPS, batches, planned

import rustle
from rustle import errors

#: Steps before the change.
STEP = 1


# Expanded weights can't freeze a layer: PyTorch itself refuses the pass.
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize(
    "mode, is_trained", [*((mode, at) for mode in ("hooks", "functorch", "ghost") for at in (True, False)), ("ew", False)]
)
def test_opacus(tmp_path, mode, to_none, is_trained):
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    import rustle.opacus

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    net[0].requires_grad_(is_trained)
    dimension = sum(p.numel() for p in net.parameters() if p.requires_grad)
    data = torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 2, (RECORDS,)))
    loss = torch.nn.CrossEntropyLoss()
    engine = rustle.opacus.PrivacyEngine()
    made = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=SIZE),
        plan=planned(tmp_path / "run", dimension=dimension) / "plan.toml",
        batches=batches(),
        grad_sample_mode=mode,
        **({"criterion": loss} if mode == "ghost" else {}),
    )
    module, optimizer, loader = made[0], made[1], made[-1]
    loss = made[2] if mode == "ghost" else loss
    for at, (x, y) in enumerate(loader):
        if at == STEP:
            net[0].requires_grad_(not is_trained)
        before = [p.detach().clone() for p in net.parameters()]
        optimizer.zero_grad(set_to_none=to_none)
        loss(module(x), y).backward()
        if at == STEP:
            with pytest.raises(errors.LayoutMismatch, match=r"'0.weight' (was frozen|requires a gradient and has no noise)"):
                optimizer.step()
            assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))
            break
        optimizer.step()
    assert engine.session.next_step == STEP
    engine.session.close()


@pytest.mark.parametrize("is_trained", [True, False], ids=["frozen", "unfrozen"])
def test_lightning_finetuning(tmp_path, is_trained):
    torch, lightning = pytest.importorskip("torch"), pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import BaseFinetuning

    import rustle.torch

    class Finetuning(BaseFinetuning):
        def freeze_before_training(self, module):
            if not is_trained:
                self.freeze(module.net[0])

        def finetune_function(self, module, epoch, optimizer):
            if epoch == 1 and is_trained:
                self.freeze(module.net[0])
            elif epoch == 1:
                self.unfreeze_and_add_param_group(module.net[0], optimizer)

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))

        def training_step(self, batch, index):
            return 0.01 * torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            optimizer = torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.1)
            rustle.torch.attach(optimizer, session, self, divide_by=SIZE)
            return optimizer

    torch.manual_seed(0)
    dimension = 39 if is_trained else 15
    data = torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,)))
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    trainer = lightning.Trainer(accelerator="cpu", max_epochs=3, callbacks=[Finetuning()], **quiet)
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=dimension)}") as session:
        rounds = rustle.Rounds(batches(), session, steps_per_epoch=PER_EPOCH)
        with pytest.raises(errors.LayoutMismatch, match="was frozen" if is_trained else "has a gradient and no noise"):
            trainer.fit(Model(), rustle.torch.DataLoader(data, rounds))
        assert session.next_step == PER_EPOCH


@pytest.mark.parametrize("is_trained", [True, False], ids=["frozen", "unfrozen"])
def test_transformers(tmp_path, is_trained):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    import rustle.transformers

    class Labelled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
            self.net[0].requires_grad_(is_trained)

        def forward(self, x, labels):
            return {"loss": torch.nn.functional.cross_entropy(self.net(x), labels)}

    class Change(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, optimizer=None, **_):
            if state.global_step == STEP:
                model.net[0].requires_grad_(not is_trained)
                if not is_trained:
                    optimizer.add_param_group({"params": list(model.net[0].parameters())})

    torch.manual_seed(0)
    rows = [{"x": torch.randn(5), "labels": torch.tensor(at % 3)} for at in range(RECORDS)]
    quiet = dict(report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False, save_strategy="no", lr_scheduler_type="constant")
    args = transformers.TrainingArguments(str(tmp_path / "out"), max_steps=STEPS, **quiet)
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=39 if is_trained else 15)}") as session:
        rounds = rustle.Rounds(batches(), session)
        trainer = rustle.transformers.Trainer(
            Labelled(), args, rounds=rounds, divide_by=SIZE, train_dataset=rows, callbacks=[Change()]
        )
        with pytest.raises(errors.LayoutMismatch, match="was frozen" if is_trained else "has a gradient and no noise"):
            trainer.train()
        assert session.next_step == STEP


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("is_jitted", [True, False])
def test_jax(tmp_path, is_jitted, is_named):
    """A tree with as many coordinates is another one too, where the plan has no names."""
    jax = pytest.importorskip("jax")
    pytest.importorskip("optax")
    import jax.numpy as jnp

    import rustle.jax

    params = {"a": jnp.zeros((3, 4)), "b": jnp.zeros(5)}
    shapes = [(name, list(shape)) for name, shape in rustle.jax.layout(params)]
    layout = {"parameters": shapes} if is_named else {"dimension": 17}
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', **layout)}") as session:
        rounds = rustle.Rounds(batches(), session)
        for begun in (True, False):
            privatizer = rustle.jax.privatizer(session)
            update = jax.jit(privatizer.update) if is_jitted else privatizer.update
            # A state that was loaded needs no init.
            state = privatizer.init(params) if begun else jnp.asarray(session.next_step, jnp.int32)
            at, drawn = session.next_step, iter(rounds)
            next(drawn)
            _, state = update(params, state)
            next(drawn)
            for other in (
                {"a": jnp.zeros((4, 3)), "b": jnp.zeros(5)},
                {"a": jnp.zeros((3, 4)), "c": jnp.zeros(5)},
                {"a": jnp.zeros((3, 4))},
            ):
                with pytest.raises(errors.LayoutMismatch):
                    update(other, state)
            assert session.next_step == at + 1
            _, state = update(params, state)
            assert int(state) == session.next_step == at + 2
            session.release(session._owner)
