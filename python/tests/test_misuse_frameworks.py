"""Loops that frameworks run, with what `misuse_loops.py` does wrong in them: refused before a row is used, or charged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY, Cluster
from misuse import SIZE, STEPS, batches, planned
from misuse_loops import Loop, sequence
from misuse_table import cells
from ranks import RANKS, free_port, run

torch = pytest.importorskip("torch")

import rustle
import rustle.torch

HERE = Path(__file__).parent
DIMENSION = 39


class Accelerated(Loop):
    """Hugging Face's accelerate."""

    def prepare(self):
        import accelerate
        from accelerate.state import AcceleratorState, GradientState

        # Accelerators of one process share their state.
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
        self.accelerator = accelerate.Accelerator(cpu=True)
        self.net, self.optimizer = self.accelerator.prepare(self.net, self.optimizer)

    def backward(self, loss):
        self.accelerator.backward(loss)


class Lightning(Loop):
    """Lightning's trainer, manual optimization."""

    def run(self, call, loader):
        import lightning

        loop = self

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net, self.automatic_optimization = loop.net, False

            def training_step(self, batch, index):
                loop.optimizer, loop.backward = self.optimizers(), self.manual_backward
                call(loop, index, *batch)

            def configure_optimizers(self):
                return loop.plain

        quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
        try:
            lightning.Trainer(accelerator="cpu", max_epochs=1, **quiet).fit(Module(), loader)
        finally:
            self.optimizer = self.plain


class Transformers(Loop):
    """Hugging Face's Trainer, whose own step follows each batch: that of a loop is the trainer's, and a second one its own."""

    otherwise = {
        # Before the first batch.
        "other_batches": (rustle.errors.InvalidArgument, "whose batches nothing checks", 0),
        "added_later": (rustle.errors.LayoutMismatch, "has a gradient and no noise", 0),
    }
    steps = 0

    def step(self):
        self.steps += 1
        if self.steps > 1:
            super().step()

    def run(self, call, loader):
        import transformers
        from frameworks import labelled

        import rustle.transformers

        loop = self

        class Trainer(rustle.transformers.Trainer):
            def get_train_dataloader(self):
                return loader

            def training_step(self, model, inputs, *_, **__):
                loop.steps, loop.before = 0, loop.values()
                call(loop, self.state.global_step, *inputs)
                return torch.zeros(())

        class Watch(transformers.TrainerCallback):
            def on_step_end(self, *_, **__):
                loop.before = loop.values()

        quiet = dict(report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False, logging_steps=100)
        steps = max(1, STEPS - self.session.next_step)
        args = transformers.TrainingArguments(str(self.folder), max_steps=steps, save_strategy="no", **quiet)
        given = dict(rounds=self.rounds, divide_by=SIZE, train_dataset=self.data, callbacks=[Watch()])
        Trainer(labelled(torch, self.net), args, optimizers=(self.optimizer, None), **given).train()


KINDS = [(Accelerated, "accelerate", ()), (Lightning, "lightning", ())]
KINDS.append((Transformers, "transformers", ("accumulated", "without_zero_grad", "bad_batch_left_out")))


@pytest.fixture
def foreign(tmp_path):
    """A cursor of another run, in hexadecimal digits."""
    rustle.Plan.load(planned(tmp_path / "plan", dimension=DIMENSION) / "plan.toml").save(tmp_path / "other" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path / 'other'}") as session:
        rounds = rustle.Rounds(batches(), session)
        next(iter(rounds))
        session.privatize_(np.zeros(DIMENSION, np.float32), 0)
        return session.cursor().hex()


@pytest.mark.parametrize("kind, name, left_out", KINDS, ids=[kind[1] for kind in KINDS])
def test_frameworks(tmp_path, foreign, kind, name, left_out):
    pytest.importorskip(name)
    kind.folder = tmp_path / "out"
    url = f"inproc://{planned(tmp_path / 'run', dimension=DIMENSION)}"
    assert set(sequence(kind, lambda: rustle.connect(url), foreign, left_out)) == cells(name, "test_frameworks")


def test_a_batch_of_the_trainer_without_gradients_has_its_row(tmp_path):
    """A step of the trainer follows each batch: the sum of one that is left out is zero, and has noise as any other."""
    pytest.importorskip("transformers")
    Transformers.folder = tmp_path / "out"
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=DIMENSION)}") as session:
        t = Transformers(session)
        before = t.values()
        t.run(lambda t, at, x, y: None, t.loader())
        assert session.next_step == STEPS
        assert not any(torch.equal(a, b) for a, b in zip(before, t.values(), strict=True))


FSDP = """
import sys
sys.path.insert(0, sys.argv[1])
import json, torch, torch.distributed as dist, rustle
from misuse_loops import Loop, sequence
url, foreign, out = sys.argv[2:]
dist.init_process_group("gloo")

class Fsdp(Loop):
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def wrapped(self, net):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (self.ranks,))
        for part in (net[0], net[2], net):
            fully_shard(part, mesh=mesh)
        return net

    def values(self):
        return [p.detach().to_local().clone() for p in self.net.parameters()]

    # FSDP takes the mean over ranks.
    def sums(self, x, y, clip_norm=None, divide_by=15):
        scale = (clip_norm or 1.0) / self.session.plan.clip_norm
        self.backward(self.mean(x, y) * (len(x) * self.ranks * scale / divide_by))

# Beyond the bound together, and each rank's part within it.
t = Fsdp(rustle.connect(url))
next(iter(t.loader()))
for p in t.net.parameters():
    p.grad = torch.zeros_like(p)
part = t.net[0].weight.grad.to_local()
part.fill_(0.9 * t.session.plan.clip_norm / part.numel() ** 0.5)
try:
    t.optimizer.step()
except rustle.errors.SumTooLarge as error:
    assert "norm 19.09; allowed: 15" in str(error), error
else:
    raise SystemExit("a sum beyond its bound was taken")
assert t.session.next_step == 0
t.session.close()

done = sequence(Fsdp, lambda: rustle.connect(url), foreign)
if dist.get_rank() == 0:
    open(out, "w").write(json.dumps(done))
dist.barrier()
dist.destroy_process_group()
"""


def test_fsdp(tmp_path, foreign):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    cluster = Cluster(planned(tmp_path / "run", dimension=DIMENSION))
    try:
        run(FSDP, HERE, cluster.url(), foreign, tmp_path / "done")
    finally:
        cluster.stop()
    assert RANKS == 2 and set(json.loads((tmp_path / "done").read_text())) == cells("fsdp", "test_fsdp")


DEEPSPEED = """
import sys
sys.path.insert(0, sys.argv[1])
import json, deepspeed, rustle
from misuse import SIZE
from misuse_loops import Loop, sequence
url, foreign, out = sys.argv[2:]

class DeepSpeed(Loop):
    def prepare(self):
        # Its default clips sums to 1, and so hides from every check how large they were.
        settings = {"train_batch_size": SIZE, "zero_optimization": {"stage": 0}, "gradient_clipping": 0.0}
        self.engine, *_ = deepspeed.initialize(model=self.net, optimizer=self.optimizer, config=settings)

    def mean(self, x, y):
        return self.torch.nn.functional.cross_entropy(self.engine(x), y)

    def backward(self, loss):
        self.engine.backward(loss)

    def step(self):
        self.before = self.values()
        self.engine.step()
        self.before = self.values()

done = sequence(DeepSpeed, lambda: rustle.connect(url), foreign, ["without_zero_grad"])
open(out, "w").write(json.dumps(done))
"""


def test_deepspeed(tmp_path, foreign):
    pytest.importorskip("deepspeed")
    one = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    url = f"inproc://{planned(tmp_path / 'run', dimension=DIMENSION)}"
    command = [sys.executable, "-c", DEEPSPEED, str(HERE), url, foreign, str(tmp_path / "done")]
    environment = {**os.environ, **one, "DS_ACCELERATOR": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(json.loads((tmp_path / "done").read_text())) == cells("deepspeed", "test_deepspeed")


def test_ray(tmp_path, foreign):
    """By a process of Ray Train, of a coordinator and a worker that are actors."""
    ray = pytest.importorskip("ray")
    train = pytest.importorskip("ray.train")
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    import rustle.ray
    from ray.train.torch import TorchTrainer

    rustle.Plan.load(planned(tmp_path / "plan-of-ray", dimension=DIMENSION) / "plan.toml").save(tmp_path / "run" / "plan.toml")

    def loop(config):
        sys.path.insert(0, config["here"])
        from misuse_loops import Loop, sequence

        done = sequence(Loop, lambda: config["noise"].connect(timeout=300), config["foreign"])
        Path(config["out"]).write_text(json.dumps(done))
        ray.train.report({"rows": len(done)})

    os.environ |= {"RUSTLE_BIN": str(BINARY), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1"}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20)
    try:
        with rustle.ray.start(tmp_path / "run", workers=1, cpus_per_worker=0.5) as cluster:
            config = {"noise": cluster.access, "foreign": foreign, "out": str(tmp_path / "done"), "here": str(HERE)}
            scaling = train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.5})
            where = train.RunConfig(storage_path=str(tmp_path / "train"))
            TorchTrainer(loop, train_loop_config=config, scaling_config=scaling, run_config=where).fit()
    finally:
        ray.shutdown()
    assert set(json.loads((tmp_path / "done").read_text())) == cells("ray", "test_ray")
