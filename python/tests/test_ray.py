"""Coordinator and workers as actors of a real local Ray: lost ones, a placement group, Ray Train, a sweep's runs as tasks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY, DIMENSION, STEPS

ray = pytest.importorskip("ray")

import rustle
from rustle import errors


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    os.environ |= {"RUSTLE_BIN": str(BINARY), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1"}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20)
    yield
    ray.shutdown()


@pytest.fixture
def begun(local, tmp_path, plan):
    import rustle.ray

    plan.save(tmp_path / "run" / "plan.toml")
    with rustle.ray.start(tmp_path / "run", workers=2, cpus_per_worker=0.25) as cluster:
        yield cluster


def oracle(folder, address):
    """All rows of the job by the program that makes them slowly, from plan, key and noise id."""
    access = ["--coordinator", f"https://{address}", "--tls-dir", str(folder / "tls/operator")]
    shown = subprocess.check_output([BINARY, "job", "show", *access, "--format", "json"])
    words = ["--plan", folder / "plan.toml", "--key-file", folder / "job.key"]
    words += ["--noise-id", json.loads(shown)["noise_id"], "--steps", f"0..{STEPS}", "--out", folder / "rows.npy"]
    subprocess.run([BINARY, "noise", *map(str, words)], check=True, capture_output=True)
    return np.load(folder / "rows.npy")


def test_what_is_lost_is_started_again_and_rows_are_the_same_bits(begun, tmp_path):
    import rustle.ray

    expected = oracle(tmp_path / "run", begun.access.address)
    first = ray.get(begun.workers[0].ready.remote())
    with begun.connect(timeout=300) as session:
        for step in range(STEPS):
            if step == 3:
                ray.kill(begun.workers[0], no_restart=False)
            if step == 6:
                os.kill(ray.get(begun.workers[1].ready.remote()), signal.SIGKILL)
            if step == 9:
                os.kill(ray.get(begun.coordinator.ready.remote()), signal.SIGKILL)
                ray.get(begun.coordinator.ready.remote())
            row = session.fetch_into(step, np.empty(DIMENSION, np.float32))
            assert np.array_equal(row, expected[step]), step
        assert session.next_step == STEPS and session.branch == 0
    assert ray.get(begun.workers[0].ready.remote()) != first
    assert "key" not in repr(begun.access)
    # What actors wrote, lost ones too, has the key nowhere.
    key, written = (tmp_path / "run" / "job.key").read_bytes(), Path(tempfile.gettempdir()).glob("rustle-*/*")
    mine = [path for path in written if path.is_file() and path.stat().st_uid == os.getuid()]
    assert mine and not [path for path in mine if key in path.read_bytes()]


def test_a_cluster_in_a_placement_group_serves_ray_train_and_continues_in_its_folder(local, tmp_path, plan):
    pytest.importorskip("torch")
    train = pytest.importorskip("ray.train")
    import rustle.ray
    from ray.train.torch import TorchTrainer

    def loop(config):
        with config["noise"].connect(timeout=300) as session:
            for step in range(3):
                session.privatize_(np.zeros(session.dimension, np.float32), step)
        ray.train.report({"steps": 3})

    plan.save(tmp_path / "run" / "plan.toml")
    group = ray.util.placement_group([{"CPU": 0.5}, {"CPU": 0.5}])
    with rustle.ray.start(tmp_path / "run", workers=2, cpus_per_worker=0.5, placement_group=group) as cluster:
        where = train.RunConfig(storage_path=str(tmp_path / "train"))
        scaling = train.ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.5})
        noise = {"noise": cluster.access}
        TorchTrainer(loop, train_loop_config=noise, scaling_config=scaling, run_config=where).fit()
    ray.util.remove_placement_group(group)
    with rustle.ray.start(tmp_path / "run", workers=1, cpus_per_worker=0.5) as cluster, cluster.connect() as session:
        assert (session.next_step, session.branch) == (3, 0)
    os.remove(tmp_path / "run" / "coordinator" / "ledger.redb")
    with pytest.raises(errors.LedgerMissing, match="earlier run"):
        rustle.ray.start(tmp_path / "run")


def test_runs_of_a_sweep_are_tasks(local, tmp_path, plan):
    """One after the other: the runs of a folder share its ledger."""

    def opened():
        mails = rustle.DataSet(f"inproc://{tmp_path / 'sweep'}", "mails", unit="user", epsilon=40, delta=1e-5)
        return rustle.Sweep(mails, "rates", plan=plan, mean=2, shape=1, space={"rate": [0.1, 0.2]})

    @ray.remote(num_cpus=1)
    def trial():
        run = opened().next()
        if run is None:
            return False
        with run.connect() as session:
            for step in range(STEPS):
                session.privatize_(np.zeros(DIMENSION, np.float32), step)
        run.score = run.parameters["rate"]
        return True

    while ray.get(trial.remote()):
        pass
    best = opened().best()
    assert best.score == best.parameters["rate"]


def test_what_cannot_begin_says_why(local, tmp_path, plan):
    import rustle.ray

    with pytest.raises(errors.PlanError, match="plan.toml is missing"):
        rustle.ray.start(tmp_path / "empty")
    plan.save(tmp_path / "run" / "plan.toml")
    with pytest.raises(errors.InvalidArgument, match="workers is 0"):
        rustle.ray.start(tmp_path / "run", workers=0)
    with pytest.raises(errors.NotFound, match="RUSTLE_BIN"):
        rustle.ray.start(tmp_path / "run", program="/nowhere/rustle")
    assert not (tmp_path / "run" / "job.key").exists()


LOST_NODE = """
import os, signal, sys
import numpy as np, ray, rustle.ray
from ray.cluster_utils import Cluster
sys.path.insert(0, sys.argv[1])
from test_ray import Path, STEPS, DIMENSION, oracle
folder, small = Path(sys.argv[2]), {"num_cpus": 1, "object_store_memory": 80 << 20}
nodes = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
first = nodes.add_node(**small, resources={"rows": 1})
ray.init(address=nodes.address, log_to_driver=False)
with rustle.ray.start(folder, workers=1, cpus_per_worker=0.5, worker_options={"resources": {"rows": 0.5}}) as cluster:
    expected = oracle(folder, cluster.access.address)
    process = ray.get(cluster.workers[0].ready.remote())
    with cluster.connect(timeout=300) as session:
        for step in range(STEPS):
            if step == 4:
                nodes.add_node(**small, resources={"rows": 1})
                # By SIGKILL, as a machine is lost: its raylet, and the process that makes rows.
                nodes.remove_node(first, allow_graceful=False)
                os.kill(process, signal.SIGKILL)
            row = session.fetch_into(step, np.empty(DIMENSION, np.float32))
            assert np.array_equal(row, expected[step]), step
        assert session.next_step == STEPS and session.branch == 0
    # The node that is left with what the worker needs is the other one.
    assert ray.get(cluster.workers[0].ready.remote()) != process
    assert sum(node["Alive"] and "rows" in node["Resources"] for node in ray.nodes()) == 1
"""


def test_a_worker_of_a_lost_node_is_started_on_another_and_rows_are_the_same_bits(tmp_path, plan):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    plan.save(tmp_path / "run" / "plan.toml")
    settings = {"RUSTLE_BIN": str(BINARY), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", LOST_NODE, str(Path(__file__).parent), str(tmp_path / "run")]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
