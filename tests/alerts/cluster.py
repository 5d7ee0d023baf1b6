"""A real cluster in a folder, of separate processes that can be killed, stopped and denied their files one by one."""

import json
import os
import resource
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RUSTLE_BIN", str(ROOT / "target/release/rustle"))
# Longest wait in seconds for what must happen; generous for a busy machine.
TIMEOUT = 120
# A lease that a worker renews in time on a busy machine too.
LEASES = ["--heartbeat", "200ms", "--lease-ttl", "4s", "--checkpoint-interval", "0s"]


def wait_for(what, happened):
    """Returns the first true answer of `happened`."""
    deadline = time.monotonic() + TIMEOUT
    while not (answer := happened()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {TIMEOUT} s not yet: {what}")
        time.sleep(0.1)
    return answer


def get(url):
    """The body of a page, or None where there is no answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return None


def may_not_grow():
    """Run in a new process: a write beyond the limit on its files fails, as on a full disk, and sends no deadly signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Cluster:
    """One or more coordinators and workers. `client` is what commands need to reach it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.processes = {}
        # What each process said of itself when it was ready; it removes the file when it ends.
        self.ready = {}
        self.urls = []
        self.client = []
        # Processes that are no part of it, and end with it.
        self.others = []
        self.rustle("key", "new", "--out", self.path("job.key"))
        self.rustle(
            *("plan", "optimize", "--mechanism", "blt", "--iterations", "400", "--min-sep", "40", "--float"),
            *("--max-participations", "10", "--noise-multiplier", "2", "--out", self.path("plan.toml")),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.processes.values(), *self.others]:
            process.kill()
            process.wait()

    def path(self, name):
        return str(self.folder / name)

    def attempt(self, *words):
        """A finished command, whatever it says."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RUSTLE_")}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment, timeout=TIMEOUT)

    def rustle(self, *words):
        done = self.attempt(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def ask(self, *words):
        """The JSON answer of a command to this cluster."""
        return json.loads(self.rustle(*words, "--format", "json", "--coordinator", ",".join(self.urls), *self.client))

    def begin(self, name, command):
        """Starts a process, and waits until it says where it listens."""
        ready = self.folder / f"{name}.ready.json"
        ready.unlink(missing_ok=True)
        log = open(self.folder / f"{name}.log", "a")
        self.processes[name] = subprocess.Popen(
            [PROGRAM, *command, "--ready-file", str(ready)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=may_not_grow,
        )

        def is_ready():
            assert self.processes[name].poll() is None, self.log(name)
            return ready.exists()

        wait_for(f"{name} is ready", is_ready)
        self.ready[name] = json.loads(ready.read_text())
        return self.ready[name]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def coordinator(self, *flags, name="coordinator", ledger=True):
        """Begins a ledger where there is none, and starts. A second start takes the address of the first."""
        data = self.folder / name
        if ledger and not (data / "ledger.redb").exists():
            self.rustle("ledger", "init", "--data-dir", str(data))
        before = self.folder / f"{name}.listen"
        listen = before.read_text() if before.exists() else "127.0.0.1:0"
        command = ["coordinator", "--listen", listen, "--data-dir", str(data), *LEASES, *flags]
        url = self.begin(name, command)["grpc"]
        before.write_text(url.split("//")[1])
        if url not in self.urls:
            self.urls.append(url)

    def worker(self, number, *flags, key="job.key"):
        name = f"worker-{number}"
        command = ["worker", "--name", name, "--coordinator", ",".join(self.urls), "--listen", "127.0.0.1:0"]
        command += ["--key-file", self.path(key), "--state-dir", self.path(f"{name}.state"), "--threads", "1", *flags]
        self.begin(name, command)

    def job(self, *flags, shards=2):
        create = ["job", "create", "--job", "staged", "--plan", self.path("plan.toml"), "--dimension", "4096"]
        self.ask(*create, "--shards", str(shards), "--key-file", self.path("job.key"), *flags)
        wait_for("all shards are served", lambda: self.gauge("rustle_coordinator_shards_unready") == 0)

    def fetch(self, first, end, commitment="staged"):
        """Binds the rows, and takes a few numbers of each. Returns the finished command."""
        words = ["fetch", "--job", "staged", "--steps", f"{first}..{end}", "--range", "0..512", "--deadline", "60s"]
        words += ["--commitment", commitment, "--out", self.path(f"{first}-{commitment}.npy")]
        return self.attempt(*words, "--coordinator", ",".join(self.urls), *self.client)

    def release(self, first, end):
        done = self.fetch(first, end)
        assert done.returncode == 0, done.stderr

    def kill(self, *names):
        for name in names:
            self.processes[name].kill()
            self.processes[name].wait()

    def stop(self, *names):
        for name in names:
            self.processes[name].send_signal(signal.SIGSTOP)

    def forbid_growth(self, name):
        """From now on no file of the process gets longer."""
        resource.prlimit(self.processes[name].pid, resource.RLIMIT_FSIZE, (4096, 4096))

    def targets(self):
        """Where Prometheus scrapes: job and host:port."""
        for name, ready in self.ready.items():
            job = "rustle-worker" if name.startswith("worker") else "rustle-coordinator"
            yield job, ready["metrics"].split("//")[1]

    def at(self, name, page):
        return get(self.ready[name]["metrics"] + page)

    def gauge(self, name, of="coordinator"):
        """The value of a series at one process, or None."""
        for line in (self.at(of, "/metrics") or "").splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return None
    def problems(self, of="coordinator"):
        """Kinds of problems that a coordinator lists, critical ones and warnings."""
        status = json.loads(self.at(of, "/status") or "{}")
        return {problem["kind"] for problem in status.get("problems", [])}

    def wait_until_settled(self):
        """The gauge of problems is sampled every few seconds, and `/status` is not."""

        def is_settled():
            for name in self.processes:
                page = self.at(name, "/metrics") if name.startswith("coordinator") else None
                # One that stands by has no such gauge.
                if page and "\nrustle_coordinator_problems{" in page:
                    listed = json.loads(self.at(name, "/status"))["problems"]
                    for severity in ("critical", "warning"):
                        count = sum(problem["severity"] == severity for problem in listed)
                        if f'rustle_coordinator_problems{{severity="{severity}"}} {count}\n' not in page:
                            return False
            return True

        wait_for("the gauge of problems says what the status says", is_settled)

    def wait_for_problem(self, kind):
        wait_for(f"the problem {kind}", lambda: kind in self.problems())
