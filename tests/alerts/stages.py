"""Failures of a real cluster, each with the critical alerts that it must fire, and no others."""

import shutil
import socket
import subprocess

from cluster import TIMEOUT, get, wait_for

# `rustle status` lists these too, and RustleCriticalProblem stands for all that it lists.
LISTED = "RustleCriticalProblem"
STAGES = {}


def stage(title, *critical):
    """Registers a generator: what is before its `yield` is the healthy cluster, what follows is the failure."""

    def register(function):
        STAGES[function.__name__.replace("_", "-")] = (title, set(critical), function)
        return function

    return register


def healthy(cluster, workers=2, *flags, job=()):
    cluster.coordinator(*flags)
    for number in range(workers):
        cluster.worker(number)
    cluster.job(*job)
    cluster.release(0, 3)


def nothing_served(cluster):
    return cluster.gauge("rustle_coordinator_shards_unready") == 2


@stage("the only worker is killed", "RustleNoWorkers", "RustleShardsNotServed", LISTED)
def only_worker_killed(cluster):
    healthy(cluster, 1)
    yield
    cluster.kill("worker-0")
    wait_for("the worker is missed", lambda: nothing_served(cluster))


@stage("all workers are killed but one, which has another key", "RustleShardsNotServed", LISTED)
def all_but_one_killed(cluster):
    healthy(cluster, 2)
    cluster.rustle("key", "new", "--out", cluster.path("other.key"))
    cluster.worker(2, key="other.key")
    yield
    cluster.kill("worker-0", "worker-1")
    wait_for("the workers are missed", lambda: nothing_served(cluster))


@stage("both workers are stopped, and alive", "RustleNoWorkers", "RustleShardsNotServed", LISTED)
def workers_stopped(cluster):
    healthy(cluster)
    yield
    cluster.stop("worker-0", "worker-1")
    wait_for("the workers are missed", lambda: nothing_served(cluster))
    # A stopped process gives no answer; its scrape would only wait.
    cluster.kill("worker-0", "worker-1")


@stage("the coordinator is killed", "RustleCoordinatorDown")
def coordinator_killed(cluster):
    healthy(cluster)
    yield
    cluster.kill("coordinator")


@stage("the ledger's file can grow no more", "RustleCoordinatorDown")
def ledger_full(cluster):
    healthy(cluster)
    yield
    cluster.forbid_growth("coordinator")
    # Bindings that the file has no room for; the coordinator ends, and its last words name the ledger.
    first = 3
    while cluster.processes["coordinator"].poll() is None and first < 390:
        words = ["fetch", "--job", "staged", "--steps", f"{first}..{first + 40}", "--range", "0..8", "--deadline", "2s"]
        cluster.attempt(*words, "--commitment", "x", "--out", cluster.path("no.npy"), "--coordinator", cluster.urls[0])
        first += 40
    cluster.processes["coordinator"].wait(TIMEOUT)
    assert "ledger" in cluster.log("coordinator").splitlines()[-1], cluster.log("coordinator")


@stage("the checkpoint store can't be written", LISTED)
def store_unwritable(cluster):
    store = cluster.folder / "store"
    store.mkdir()
    healthy(cluster, 2, "--checkpoint-url", f"file://{store}")
    yield
    # A file in the folder's place: root may write into any folder.
    store.rename(cluster.folder / "gone")
    store.write_text("")
    # A warning at first.
    critical = 'rustle_coordinator_problems{severity="critical"}'
    wait_for("nothing is bound any more", lambda: cluster.gauge(critical) == 1)
    assert cluster.problems() == {"anchor_not_renewed"}


# The refusals of workers are answers of the code data_loss.
@stage("the ledger is a copy", "RustleInternalErrors", LISTED)
def ledger_copied(cluster):
    healthy(cluster)
    yield
    cluster.kill("coordinator")
    data = cluster.folder / "coordinator"
    copy = cluster.folder / "copy"
    shutil.copytree(data, copy)
    shutil.rmtree(data)
    copy.rename(data)
    cluster.coordinator()
    cluster.wait_for_problem("ledger_copied")
    # No worker is let in, and so nothing is served; a coordinator that can't begin an epoch has no gauges of workers and shards.
    cluster.wait_for_problem("worker_refused")
    cluster.wait_for_problem("shards_not_served")


@stage("an old ledger, which a worker contradicts", "RustleLedgerContradicted", LISTED)
def ledger_old(cluster):
    healthy(cluster, 1)
    cluster.kill("coordinator")
    # In the same files, with the anchor, as a snapshot of the volume puts it back: the worker alone knows better.
    data = cluster.folder / "coordinator"
    yesterday = {path: path.read_bytes() for path in data.glob("ledger.redb*") if path.is_file()}
    cluster.coordinator()
    cluster.release(3, 6)
    yield
    cluster.kill("coordinator")
    [path.write_bytes(content) for path, content in yesterday.items()]
    cluster.coordinator()
    cluster.wait_for_problem("ledger_behind")


@stage("one row is requested under two commitments", "RustleBindingsConflict")
def two_trainings(cluster):
    healthy(cluster)
    yield
    refused = cluster.fetch(2, 3, "another sum")
    assert refused.returncode != 0 and "bound to another commitment" in refused.stderr, refused.stderr


@stage("a data set's budget is used up, and a job refused", "RustleBudgetUsedUp")
def budget_used_up(cluster):
    cluster.coordinator()
    cluster.ask("budget", "create", "people", "--unit", "user", "--epsilon", "100", "--delta", "1e-6")
    cluster.worker(0)
    cluster.job("--data-set", "people")
    cluster.release(0, 3)
    yield
    spent = wait_for("the job is charged", lambda: charged(cluster))
    cluster.ask("budget", "grant", "people", "--epsilon", f"{spent * 1.0001:.6f}")
    again = ["job", "create", "--job", "more", "--plan", cluster.path("plan.toml"), "--dimension", "4096"]
    again += ["--key-file", cluster.path("job.key"), "--data-set", "people", "--coordinator", cluster.urls[0]]
    refused = cluster.attempt(*again)
    assert refused.returncode == 1 and "budget" in refused.stderr, refused.stderr
    left = 'rustle_data_set_privacy_left_epsilon{data_set="people",delta="1e-6"}'
    wait_for("the metric follows", lambda: (value := cluster.gauge(left)) is not None and value < 0.01)


def charged(cluster):
    shown = cluster.ask("budget", "show", "people")
    return shown["spent"]["epsilon"] + shown["reserved"]["epsilon"]


@stage("the coordinator's certificate ends today", LISTED)
def certificate_ends(cluster):
    certs = cluster.path("certs")
    cluster.rustle("certs", "new", "--out", certs, "--workers", "1", "--job", "staged")
    cluster.coordinator("--tls-dir", f"{certs}/coordinator")
    # An operator makes the job.
    cluster.client = ["--tls-dir", f"{certs}/operator"]
    cluster.worker(0, "--tls-dir", f"{certs}/worker-0")
    cluster.job()
    yield
    issue = ["certs", "issue", "--authority", certs, "--role", "coordinator", "--life", "20h"]
    cluster.rustle(*issue, "--out", f"{certs}/coordinator")
    cluster.wait_for_problem("certificate_ends")


class Etcd:
    """One etcd of its own in the cluster's folder."""

    def __init__(self, cluster):
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{one.getsockname()[1]}"
            peer = f"http://127.0.0.1:{two.getsockname()[1]}"
        url = f"http://{self.address}"
        command = ["etcd", "--data-dir", cluster.path("etcd"), "--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        log = open(cluster.folder / "etcd.log", "w")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        cluster.others.append(self.process)
        wait_for("etcd is healthy", lambda: "true" in (get(f"{url}/health") or ""))

    def flags(self):
        return ["--store", f"etcd://{self.address}/rustle", "--checkpoint-url", "none", "--leader-lease-ttl", "4s"]


def two_coordinators(cluster):
    etcd = Etcd(cluster)
    for name in ("coordinator", "coordinator-b"):
        cluster.coordinator(*etcd.flags(), name=name, ledger=False)
        wait_for("one leads", lambda: (cluster.at("coordinator", "/readyz") or "").startswith("ready"))
    cluster.worker(0)
    cluster.job()
    cluster.release(0, 3)
    return etcd


@stage("of two coordinators the leader is killed, and the other leads", "RustleCoordinatorDown")
def leader_killed(cluster):
    two_coordinators(cluster)
    yield
    cluster.kill("coordinator")
    unready = "rustle_coordinator_shards_unready"
    wait_for("the other one leads, and serves", lambda: cluster.gauge(unready, "coordinator-b") == 0)


@stage("the etcd of two coordinators is lost", LISTED)
def etcd_lost(cluster):
    etcd = two_coordinators(cluster)
    yield
    etcd.process.kill()
    etcd.process.wait()
    # The one that led; the other one still names it.
    cluster.wait_for_problem("no_leader")
    refused = cluster.fetch(3, 4)
    assert refused.returncode != 0, refused.stdout
