"""Ray: a coordinator and workers as actors of a Ray cluster, for a job of Ray Train or Ray Tune.

::

    with rustle.ray.start("run", workers=2) as cluster:              # the folder has plan.toml
        trainer = TorchTrainer(train, train_loop_config={"noise": cluster.access}, …)
        trainer.fit()

    session = config["noise"].connect()                              # within train

Each actor runs the program ``rustle`` as a process of its own. An actor that is lost, with its node or by itself, is
started again by Ray: a worker on any node, the coordinator beside its ledger, on the node that called :func:`start`. Rows
do not depend on that: the steps of a training wait, and go on with the same bits.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from . import _arguments, errors
from ._connect import connect
from ._native import Plan
from ._session import Session

__all__ = ["Access", "Cluster", "start"]

# Seconds that a process may take to begin, and to end.
_BEGIN, _END = 120, 30
_PR_SET_PDEATHSIG = 1
_CERTIFICATE = ("ca.pem", "cert.pem", "key.pem")
_LIBRARY = ctypes.CDLL(None)


@dataclass(frozen=True)
class Access:
    """What a training needs to reach the cluster from any node: an address, and a certificate of the job.

    Ray carries it to a training's processes, pickled. As secret as a token of the job's trainer: keep it out of what Ray
    Tune writes to disk, which has a trial's own parameters (``tune.with_parameters`` passes it otherwise).
    """

    address: str
    job: str
    certificate: dict[str, bytes] = field(repr=False)

    def connect(self, *, timeout: float = 60) -> Session:
        """Opens the job's session from this process. ``timeout``: seconds that a fetch waits, for a lost worker too."""
        folder = tempfile.mkdtemp(prefix="rustle-")
        try:
            _write_secrets(Path(folder), self.certificate)
            settings = f"tls_dir={quote(folder)}&job={quote(self.job)}&timeout={timeout}"
            return connect(f"grpcs://{self.address}?{settings}")
        finally:
            # The session keeps what it read.
            shutil.rmtree(folder, ignore_errors=True)


class Cluster:
    """A running coordinator with its workers, begun by :func:`start`, until :meth:`stop`."""

    def __init__(self, access: Access, coordinator: Any, workers: list[Any]):
        #: Address and certificate of the job, to pass to a training.
        self.access = access
        #: The actors. ``ray.get(actor.ready.remote())`` waits until one serves, and returns the number of its process.
        self.coordinator, self.workers = coordinator, workers

    def connect(self, *, timeout: float = 60) -> Session:
        """Opens the job's session here, as :meth:`Access.connect` does."""
        return self.access.connect(timeout=timeout)

    def stop(self) -> None:
        """Ends workers and coordinator. The folder keeps the ledger; :func:`start` continues with it."""
        for actor in [*self.workers, self.coordinator]:
            try:
                ray.get(actor.stop.remote(), timeout=_END)
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                pass
            ray.kill(actor, no_restart=True)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    folder: str | os.PathLike[str],
    *,
    workers: int = 2,
    job: str = "default",
    dimension: int | None = None,
    cpus_per_worker: float = 1,
    placement_group: Any = None,
    worker_options: dict[str, Any] | None = None,
    program: str | None = None,
) -> Cluster:
    """Starts a coordinator and workers as Ray actors, and creates the job unless it exists.

    Ledger, key and certificates are created in the folder by the first call. All connections have TLS, with an authority in the
    folder. Key and certificates of workers travel through Ray, as arguments of its actors: turn Ray's own TLS on
    where the network or the store of its head node is not yours alone (``RAY_USE_TLS``). No node but this one has a file of
    the key. An actor that dies with its node or by SIGKILL leaves its certificate in the node's ``TMPDIR``.

    Args:
        folder: The run's folder on this node, with ``plan.toml``. Never copy it to train twice.
        workers: The number of worker actors, one process each.
        job: The job's name.
        dimension: Coordinates; by default those of the plan's layout.
        cpus_per_worker: The CPUs that Ray reserves for each worker, which makes rows with as many threads.
        placement_group: Places the workers in its bundles, one after the other: beside the processes of a training in
            the same bundles' nodes. By default Ray spreads workers over nodes.
        worker_options: Other options of the worker actors, such as ``resources`` or ``label_selector``.
        program: The program ``rustle``; by default that of ``RUSTLE_BIN``, or of the path, on each node.

    Raises:
        rustle.errors.LedgerMissing: The folder has the key of an earlier run without its ledger.
        rustle.errors.NotFound: There is no program ``rustle``.
        rustle.errors.Unavailable: A process ended before it was ready; the text has its last words.
    """
    workers, job = _arguments.whole("workers", workers, 1), _arguments.text("job", job)
    if not _arguments.number("cpus_per_worker", cpus_per_worker) >= 0:
        raise _arguments.refused("cpus_per_worker", cpus_per_worker, "0 or more")
    if worker_options is not None:
        _arguments.instance("worker_options", worker_options, dict, "a dict of options of Ray's actors, or None")
    folder = Path(_arguments.path("folder", folder)).absolute()
    if not (folder / "plan.toml").exists():
        raise errors.make("plan", f"{folder / 'plan.toml'} is missing; allowed: a folder with the run's plan")
    _check_dimension(dimension, Plan.load(folder / "plan.toml"))
    rustle = _find_program(None if program is None else _arguments.path("program", program))
    _begin(rustle, folder, workers, job)
    here = ray.util.get_node_ip_address()
    address = f"{here}:{_free_port(here)}"
    beside = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    words = ["coordinator", "--listen", address, "--data-dir", str(folder / "coordinator")]
    coordinator = _actor(num_cpus=0, scheduling_strategy=beside).remote(program, words, _certificate(folder, "coordinator"))
    actors: list[Any] = []
    try:
        ray.get(coordinator.ready.remote())
        for number in range(workers):
            words = ["worker", "--name", f"worker-{number}", "--coordinator", f"https://{address}"]
            words += ["--threads", str(max(1, int(cpus_per_worker)))]
            secrets, key = _certificate(folder, f"worker-{number}"), (folder / "job.key").read_bytes()
            options = {"scheduling_strategy": _place(placement_group, number), **(worker_options or {})}
            record = hashlib.sha256(f"{here} {folder} {number}".encode()).hexdigest()[:16]
            actors.append(_actor(num_cpus=cpus_per_worker, **options).remote(program, words, secrets, record, key))
        ray.get([actor.ready.remote() for actor in actors])
        words = ["job", "create", "--coordinator", f"https://{address}", "--tls-dir", str(folder / "tls/operator")]
        words += ["--job", job, "--plan", str(folder / "plan.toml"), "--key-file", str(folder / "job.key")]
        words += ["--dimension", str(dimension)] if dimension is not None else []
        _run(rustle, *words)
    except BaseException as error:
        begun = [*actors, coordinator]
        # An actor that is killed leaves its certificate on its node.
        ray.wait([actor.stop.remote() for actor in begun], num_returns=len(begun), timeout=_END)
        for actor in begun:
            ray.kill(actor, no_restart=True)
        if isinstance(error, ray.exceptions.RayError):
            raise errors.make("unavailable", f"an actor did not begin: {error}") from error
        raise
    return Cluster(Access(address, job, _certificate(folder, f"job-{job}")), coordinator, actors)


def _check_dimension(dimension: int | None, plan: Plan) -> None:
    """Refuses what ``rustle job create`` would, once a ledger was begun for it."""
    if dimension is not None:
        _arguments.whole("dimension", dimension, 1)
    if plan.dimension is None and dimension is None:
        raise _arguments.refused("dimension", dimension, "a whole number, as the plan has no layout")
    if plan.dimension is not None and dimension not in (None, plan.dimension):
        raise _arguments.refused("dimension", dimension, f"{plan.dimension}, as in the plan's layout, or None")


def _place(group: Any, number: int) -> Any:
    if group is None:
        return "SPREAD"
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number % group.bundle_count)


def _begin(rustle: str, folder: Path, workers: int, job: str) -> None:
    """Creates certificates, ledger and key of a folder that has none; what an earlier run left stays as it is."""
    ledger, key = folder / "coordinator" / "ledger.redb", folder / "job.key"
    if not ledger.exists() and key.exists():
        text = f"{ledger} is missing, and {key} is of an earlier run, whose ledger knew what was released"
        raise errors.make("ledger_missing", f"{text}; allowed: an empty folder, or the ledger restored")
    # First, as they judge the job's name: no ledger is begun for one that is refused.
    authority = folder / "tls"
    if not authority.exists():
        _run(rustle, "certs", "new", "--out", str(authority), "--workers", str(workers), "--job", job)
    names = [(f"worker/worker-{number}", f"worker-{number}") for number in range(workers)]
    for role, name in [*names, (f"job/{job}", f"job-{job}")]:
        if not (authority / name).exists():
            _run(rustle, "certs", "issue", "--authority", str(authority), "--role", role, "--out", str(authority / name))
    if not ledger.exists():
        _run(rustle, "ledger", "init", "--data-dir", str(ledger.parent))
    if not key.exists():
        _run(rustle, "key", "new", "--out", str(key))


def _certificate(folder: Path, name: str) -> dict[str, bytes]:
    return {file: (folder / "tls" / name / file).read_bytes() for file in _CERTIFICATE}


def _run(rustle: str, *words: str) -> None:
    done = subprocess.run([rustle, *words], capture_output=True, text=True)
    if done.returncode:
        raise errors.make("invalid_argument", f"rustle {words[0]} {words[1]}: {done.stderr.strip()}")


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _find_program(given: str | None) -> str:
    found = given or os.environ.get("RUSTLE_BIN") or shutil.which("rustle")
    if found is None or not os.access(found, os.X_OK):
        text = f"the program rustle is not at {found}" if found else "there is no program rustle on the path"
        raise errors.make("not_found", f"{text}; allowed: program=, or RUSTLE_BIN, on each node")
    return found


def _write_secrets(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
            file.write(data)


def _record_folder(name: str) -> Path:
    """Returns the folder of a worker's record on this node, which no other user made."""
    path = Path(tempfile.gettempdir()) / f"rustle-{os.getuid()}-{name}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise errors.make("store", f"{path} is another user's; allowed: a folder of one's own, or another TMPDIR")
    return path


class Process:
    """An actor that runs one process of the cluster, and ends when the process does, so that Ray starts both again.

    Args:
        program: As of :func:`start`.
        words: The command line.
        secrets: Files of its certificate.
        record: Of a worker, the name of its record's folder on its node: a worker that is started again there continues it.
        key: Of a worker, the job's key. It reaches the process by a pipe, and no file.
    """

    def __init__(
        self,
        program: str | None,
        words: list[str],
        secrets: dict[str, bytes],
        record: str | None = None,
        key: bytes | None = None,
    ):
        self._folder = Path(tempfile.mkdtemp(prefix="rustle-"))
        _write_secrets(self._folder, secrets)
        ready = self._folder / "ready"
        words = [*words, "--tls-dir", str(self._folder), "--ready-file", str(ready)]
        if record is not None:
            words += ["--listen", f"{ray.util.get_node_ip_address()}:0", "--key-fd", "0"]
            words += ["--state-dir", str(_record_folder(record))]
        self._log = self._folder / "log"
        self._is_stopping = False
        # A node's own settings of a key would conflict with the pipe.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RUSTLE_KEY_")}
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [_find_program(program), *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                preexec_fn=_end_with_parent,
            )
        assert self._process.stdin is not None
        # A process that has ended already says why in its log.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(key or b"")
        self._wait_until_ready(ready)
        threading.Thread(target=self._watch, daemon=True).start()

    def ready(self) -> int:
        """Returns the number of the process, which serves."""
        return self._process.pid

    def stop(self) -> None:
        """Ends the process, and deletes its certificate."""
        self._is_stopping = True
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_ready(self, ready: Path) -> None:
        end = time.monotonic() + _BEGIN
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                words = self._last_words()
                shutil.rmtree(self._folder, ignore_errors=True)
                raise errors.make("unavailable", f"the process was not ready: {words}")
            time.sleep(0.05)

    def _watch(self) -> None:
        code = self._process.wait()
        if self._is_stopping:
            return
        print(f"rustle ended with {code}: {self._last_words()}", file=sys.stderr, flush=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        # Ray starts an actor again whose process ended.
        os._exit(1)

    def _last_words(self) -> str:
        return " ".join(self._log.read_text(errors="replace").strip().splitlines()[-3:])


def _end_with_parent() -> None:
    """Has the process end with its actor: two workers of one name would be refused."""
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _actor(**options: Any) -> Any:
    return ray.remote(Process).options(max_restarts=-1, max_task_retries=-1, **options)
