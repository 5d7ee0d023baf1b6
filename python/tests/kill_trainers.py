"""Small trainings by frameworks that bring a loop or checkpoints of their own, as :mod:`kill_jobs` has them.

Each keeps the checkpoints that its framework writes, where it writes any: those are found again by who continues.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterable

import numpy as np
from kill_jobs import EVERY, STEPS, Checkpoint, Train, compiled_once

import rustle
from rustle import schemes

DIMENSIONS = {"wrapper": 39, "lightning": 39, "accelerate": 39, "transformers": 39, "keras-torch": 39, "keras-jax": 39}
#: Adapters that bind rows to declared commitments alone.
DECLARED = {"transformers", "keras-torch", "keras-jax"}

RECORDS, PER_EPOCH, SIZE = 60, 4, 15


def opened(folder: Path) -> tuple[rustle.Session, rustle.Rounds]:
    session = rustle.connect(f"inproc://{folder}?threads=1")
    batches = rustle.Batches(schemes.fixed_order(PER_EPOCH), RECORDS, STEPS, bytes(32))
    return session, rustle.Rounds(batches, session, steps_per_epoch=PER_EPOCH)


def small(torch: Any) -> tuple[Any, Any]:
    """A model and its data, the same in every process."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    return net, torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,)))


def loss(call: Any, x: Any, y: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(call(x), y)


def values(net: Any) -> list[np.ndarray]:
    return [p.detach().numpy() for p in net.parameters()]


def of_wrapper() -> Train:
    import torch
    import torch._dynamo

    import rustle.torch

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        net, data = small(torch)
        session, rounds = opened(folder)
        checkpoint, adam = Checkpoint(folder, session), torch.optim.Adam(net.parameters(), lr=0.05)
        optimizer = rustle.torch.Optimizer(adam, session, net, divide_by=SIZE, commitment=commitment)
        kept = {"net": net, "optimizer": optimizer, "rate": torch.optim.lr_scheduler.StepLR(optimizer, 5)}
        save = lambda path: torch.save({name: one.state_dict() for name, one in kept.items()}, path)
        if checkpoint.goes_on():
            for name, state in torch.load(checkpoint.path, weights_only=True).items():
                kept[name].load_state_dict(state)
            checkpoint.resumed()
        else:
            checkpoint.write(save)
        while session.next_step < session.iterations:
            for x, y in rustle.torch.DataLoader(data, rounds):
                optimizer.zero_grad()
                rustle.torch.clipped_sum(net, loss, x, y, clip_norm=session.plan.clip_norm, divide_by=SIZE)
                optimizer.step()
                kept["rate"].step()
                if checkpoint.due():
                    checkpoint.write(save)
        return values(net)

    return train


def of_accelerate() -> Train:
    import accelerate
    import torch
    import torch._dynamo

    import rustle.torch

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        net, data = small(torch)
        session, rounds = opened(folder)
        checkpoint = Checkpoint(folder, session)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        rustle.torch.attach(optimizer, session, net, divide_by=SIZE, commitment=commitment)
        made = accelerate.Accelerator(cpu=True)
        net, optimizer, loader = made.prepare(net, optimizer, rustle.torch.DataLoader(data, rounds))
        if checkpoint.goes_on():
            made.load_state(checkpoint.folder())
            checkpoint.resumed()
        else:
            checkpoint.write_folder(made.save_state)
        while session.next_step < session.iterations:
            for x, y in loader:
                optimizer.zero_grad()
                rustle.torch.clipped_sum(net, loss, x, y, clip_norm=session.plan.clip_norm, divide_by=SIZE)
                optimizer.step()
                if checkpoint.due():
                    checkpoint.write_folder(made.save_state)
        return values(net)

    return train


def of_lightning() -> Train:
    import lightning
    import torch
    import torch._dynamo
    from lightning.pytorch.callbacks import ModelCheckpoint

    import rustle.lightning
    import rustle.torch

    class Module(lightning.LightningModule):
        def __init__(self, net: Any, session: rustle.Session, commitment: str):
            super().__init__()
            self.net, self.session, self.commitment = net, session, commitment
            self.automatic_optimization = False

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.net.parameters(), lr=0.05)
            rustle.torch.attach(optimizer, self.session, self.net, divide_by=SIZE, commitment=self.commitment)
            return optimizer

        def training_step(self, batch: Any, index: int) -> None:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            norm = self.session.plan.clip_norm
            rustle.torch.clipped_sum(self.net, loss, *batch, clip_norm=norm, divide_by=SIZE)
            optimizer.step()

    class First(lightning.Callback):
        """The checkpoint before the first step, which Lightning writes none of."""

        def __init__(self, checkpoint: Checkpoint, is_resumed: bool):
            self.checkpoint, self.is_resumed = checkpoint, is_resumed

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if self.is_resumed:
                self.checkpoint.resumed()
            else:
                trainer.save_checkpoint(self.checkpoint.path.with_name("saved") / "first.ckpt")

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        net, data = small(torch)
        session, rounds = opened(folder)
        found = sorted((folder / "saved").glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns)
        own = ModelCheckpoint(folder / "saved", every_n_train_steps=EVERY, save_top_k=-1)
        watch = rustle.lightning.Callback(session, lambda *_: None, delta=1e-5)
        quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
        callbacks = [watch, First(Checkpoint(folder, session), bool(found)), own]
        trainer = lightning.Trainer(max_steps=STEPS, callbacks=callbacks, **quiet)
        goes_on = dict(ckpt_path=found[-1], weights_only=False) if found else {}
        trainer.fit(Module(net, session, commitment), rustle.torch.DataLoader(data, rounds), **goes_on)
        return values(net)

    return train


def of_transformers() -> Train:
    import torch
    import torch._dynamo
    import transformers

    import rustle.transformers

    class Labelled(torch.nn.Module):
        def __init__(self, net: Any):
            super().__init__()
            self.net = net

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            return {"loss": loss(self.net, x, labels)}

    class Resumed(transformers.TrainerCallback):
        def __init__(self, checkpoint: Checkpoint):
            self.checkpoint = checkpoint

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.checkpoint.resumed()

    def is_whole(saved: Path) -> bool:
        """The state is what the trainer writes last."""
        try:
            return bool(json.loads((saved / "trainer_state.json").read_text()))
        except (FileNotFoundError, json.JSONDecodeError):
            return False

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        assert commitment == "declared"
        net, data = small(torch)
        session, rounds = opened(folder)
        checkpoint, callbacks = Checkpoint(folder, session), []
        found = sorted((folder / "out").glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
        whole = [path for path in found if is_whole(path)]
        if whole:
            callbacks = [Resumed(checkpoint)]
        elif session.next_step:
            # The trainer writes none before the first step.
            session.restart()
            checkpoint.resumed()
        quiet = dict(report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False, logging_steps=STEPS)
        args = transformers.TrainingArguments(
            str(folder / "out"), max_steps=STEPS, save_strategy="steps", save_steps=EVERY, **quiet
        )
        rows = [{"x": x, "labels": y} for x, y in data]
        trainer = rustle.transformers.Trainer(
            Labelled(net), args, rounds=rounds, divide_by=SIZE, train_dataset=rows, callbacks=callbacks
        )
        trainer.train(resume_from_checkpoint=str(whole[-1]) if whole else None)
        return values(net)

    return train


def of_keras(backend: str) -> Train:
    os.environ["KERAS_BACKEND"] = backend
    if backend == "jax":
        compiled_once()
    import keras

    import rustle.keras

    class Keep(keras.callbacks.Callback):
        def __init__(self, checkpoint: Checkpoint):
            super().__init__()
            self.checkpoint = checkpoint

        def write(self) -> None:
            self.checkpoint.write_folder(self.files)

        def files(self, folder: Path) -> None:
            self.model.save(folder / "model.keras")
            (folder / "cursor").write_bytes(self.checkpoint.session.cursor())

        def on_train_begin(self, logs: Any = None) -> None:
            if not self.checkpoint.goes_on():
                self.write()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.checkpoint.due():
                self.write()

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        assert commitment == "declared"
        keras.utils.set_random_seed(0)
        session, rounds = opened(folder)
        checkpoint = Checkpoint(folder, session)
        x = np.random.default_rng(0).normal(size=(RECORDS, 5)).astype(np.float32)
        if checkpoint.goes_on():
            model = keras.models.load_model(checkpoint.folder() / "model.keras")
            session.resume((checkpoint.folder() / "cursor").read_bytes())
            checkpoint.resumed()
        else:
            hidden = keras.layers.Dense(4, activation="tanh")
            model = keras.Sequential([keras.Input((5,)), hidden, keras.layers.Dense(3)])
            model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        rustle.keras.fit(
            model, x, np.arange(RECORDS) % 3, rounds=rounds, divide_by=SIZE, callbacks=[Keep(checkpoint)]
        )
        return model.get_weights()

    return train


JOBS = {
    "wrapper": of_wrapper,
    "lightning": of_lightning,
    "accelerate": of_accelerate,
    "transformers": of_transformers,
    "keras-torch": lambda: of_keras("torch"),
    "keras-jax": lambda: of_keras("jax"),
}
