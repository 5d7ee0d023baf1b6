"""Runs by frameworks that bring a training loop of their own, for the tests of misuse: the small model of `misuse.py`."""

from __future__ import annotations

import os

from misuse import RECORDS, SEED, SIZE, STEPS, Training, batches

import rustle

# Before Keras is imported, which chooses then.
os.environ.setdefault("KERAS_BACKEND", "torch")


def linear(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))


class Run:
    """A folder's run. ``load`` trains on from a checkpoint to the end, as the frameworks do."""

    def __init__(self, folder, seed=SEED, steps_per_epoch=None):
        self.folder = folder
        self.session = rustle.connect(f"inproc://{folder}")
        self.rounds = rustle.Rounds(batches(seed), self.session, steps_per_epoch=steps_per_epoch)

    def beyond(self):
        before = [value.copy() for value in self.values()]
        self.train(2)
        assert all((a == b).all() for a, b in zip(before, self.values(), strict=True))


class Torchlike(Run):
    def __init__(self, folder, seed=SEED, **more):
        import torch

        super().__init__(folder, seed, **more)
        self.torch, self.net = torch, linear(torch)
        self.x, self.y = torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def values(self):
        return [p.detach().numpy() for p in self.net.parameters()]


class Lightning(Torchlike):
    """Lightning's trainer, automatic optimization."""

    def __init__(self, folder, seed=SEED):
        import rustle.torch

        super().__init__(folder, seed)
        rustle.torch.attach(self.optimizer, self.session, self.net, divide_by=SIZE)
        self._saved = folder.parent / "lightning.ckpt"

    def _fit(self, module, steps, **arguments):
        import lightning

        import rustle.torch

        quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
        self.trainer = lightning.Trainer(accelerator="cpu", max_steps=steps, max_epochs=5, **quiet)
        data = self.torch.utils.data.TensorDataset(self.x, self.y)
        self.trainer.fit(module, rustle.torch.DataLoader(data, self.rounds), **arguments)

    def train(self, steps=STEPS):
        self._fit(lightning_module(self.net, lambda: self.optimizer), steps)

    def second(self):
        net = linear(self.torch)

        def begun():
            optimizer = self.torch.optim.SGD(net.parameters(), lr=0.1)
            rustle.torch.attach(optimizer, self.session, net, divide_by=SIZE)
            return optimizer

        self._fit(lightning_module(net, begun), STEPS)

    def save(self):
        self.trainer.save_checkpoint(self._saved)
        return self._saved

    def load(self, state):
        module = lightning_module(self.net, lambda: self.optimizer)
        self._fit(module, STEPS, ckpt_path=state, weights_only=False)


def lightning_module(net, optimizer):
    import lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, index):
            return 0.01 * torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return optimizer()

    return Module()


class Transformers(Torchlike):
    """Hugging Face's trainer."""

    def __init__(self, folder, seed=SEED):
        super().__init__(folder, seed)
        self.model = labelled(self.torch, self.net)
        self.trainer = None

    def made(self, steps, model=None, optimizers=(None, None)):
        import transformers

        import rustle.transformers

        quiet = dict(report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False, logging_steps=100)
        out = self.folder.parent / f"hf-{steps}-{self.session.next_step}"
        args = transformers.TrainingArguments(
            str(out), max_steps=steps, save_strategy="steps", save_steps=min(steps, 3), **quiet
        )
        rows = [{"x": x, "labels": y} for x, y in zip(self.x, self.y)]
        return rustle.transformers.Trainer(
            model or self.model, args, rounds=self.rounds, divide_by=SIZE, train_dataset=rows, optimizers=optimizers
        )

    def train(self, steps=STEPS, **resumed):
        # Noise stays with the optimizer that has it.
        optimizer = self.trainer.optimizer if self.trainer else None
        self.trainer = self.made(steps, optimizers=(optimizer, None))
        self.trainer.train(**resumed)

    def second(self):
        self.train(1)
        self.made(STEPS, labelled(self.torch, linear(self.torch))).train()

    def save(self):
        return next(iter((self.folder.parent).glob("hf-*/checkpoint-*")))

    def load(self, state):
        self.train(resume_from_checkpoint=str(state))


def labelled(torch, net):
    class Labelled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, labels):
            return {"loss": torch.nn.functional.cross_entropy(self.net(x), labels)}

    return Labelled()


class Keras(Run):
    """Keras on PyTorch. A checkpoint has the cursor beside the model."""

    def __init__(self, folder, seed=SEED):
        import numpy as np

        super().__init__(folder, seed, steps_per_epoch=1)
        self.model = keras_model()
        self.x = np.random.default_rng(0).normal(size=(RECORDS, 5)).astype("float32")
        self.y = np.arange(RECORDS) % 3

    def values(self):
        return self.model.get_weights()

    def fit(self, model, **arguments):
        import rustle.keras

        return rustle.keras.fit(model, self.x, self.y, rounds=self.rounds, divide_by=SIZE, **arguments)

    def train(self, steps=STEPS):
        self.fit(self.model, epochs=steps)

    def second(self):
        import keras

        class Second(keras.callbacks.Callback):
            def on_train_begin(callback, logs=None):
                self.fit(keras_model())

        self.fit(self.model, callbacks=[Second()])

    def save(self):
        return self.session.cursor()

    def load(self, state):
        self.session.resume(state)


def keras_model():
    import keras

    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(3)])
    made.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


class Accelerated(Training):
    """`rustle.torch.attach` under an optimizer that accelerate prepared."""

    def __init__(self, folder, **arguments):
        import accelerate
        from accelerate.state import AcceleratorState, GradientState

        super().__init__(folder, **arguments)
        # Accelerators of one process share their state.
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
        self.accelerator = accelerate.Accelerator(cpu=True)
        self.net, self.optimizer = self.accelerator.prepare(self.net, self.optimizer)
