"""Pictures of the status page, the report and the site, to be looked at: screenshots.py FOLDER [SITE].

The status page is that of a cluster with something to show: several jobs, one of them rewound and one of thousands of shards, a
data set's budget, refused bindings, and a worker that was killed. Needs RUSTLE_BIN.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from browser import Browser
from shots import shoot

PLAN = ["plan", "from", "--mechanism", "blt", "--theta", "0.999,0.9,0.3", "--omega", "0.01,0.2,0.3"]
PLAN += ["--iterations", "2000", "--min-sep", "100", "--max-participations", "20", "--noise-multiplier", "4", "--float"]
PAGES = {"home": "index", "page": "docs/correlated-noise", "command-line": "docs/cli"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Cluster:
    """`rustle up` with three workers in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.plan = folder / "plan.toml"
        self.run(*PLAN, "--out", self.plan)
        words = ["up", "--plan", self.plan, "--dimension", "1000000", "--workers", "3", "--job", "digits"]
        words += ["--listen", "127.0.0.1:0", "--data-dir", folder / "data", "--format", "json"]
        words = [os.environ["RUSTLE_BIN"], *words]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=folder, text=True)
        line = self._process.stdout.readline()
        self.running = json.loads(line)
        os.environ["RUSTLE_COORDINATOR"] = self.running["coordinator"]

    def run(self, *words: object, fails: bool = False) -> str:
        command = [os.environ["RUSTLE_BIN"], *map(str, words)]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=self._folder)
        assert (ended.returncode != 0) == fails, (command, ended.stdout, ended.stderr)
        return ended.stdout

    def fetch(self, job: str, steps: str, text: str = "a", *, branch: int = 0, fails: bool = False) -> None:
        where = ["--branch", branch, "--steps", steps, "--range", "0..512", "--commitment", text]
        where += ["--out", self._folder / "rows.npy"]
        self.run("fetch", "--job", job, *where, fails=fails)

    def status(self) -> dict:
        return json.load(urlopen(self.running["status_page"] + "status"))

    def wait(self, is_so) -> None:
        while not is_so(self.status()):
            time.sleep(0.2)

    def kill_a_worker(self) -> None:
        """Ends one of the child processes, at once."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        workers = [pid for pid in children if b"worker-1" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(workers[0]), signal.SIGKILL)

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()


def stage(cluster: Cluster) -> None:
    """Makes something of everything that the page can show."""
    key = ["--plan", cluster.plan, "--key-file", "data/job.key"]
    cluster.fetch("digits", "0..700")
    cluster.fetch("digits", "0..1", "another", fails=True)
    cluster.run("job", "rewind", "--job", "digits", "--to-row", 500, "--yes")
    cluster.fetch("digits", "500..640", "b", branch=1)
    cluster.run("budget", "create", "clinic", "--unit", "user", "--epsilon", "12", "--delta", "1e-6")
    cluster.run("job", "create", "--job", "small", "--dimension", 10_000, "--data-set", "clinic", *key)
    cluster.fetch("small", "0..300")
    cluster.run("job", "create", "--job", "many-shards", "--dimension", 512 * 1000, "--shards", 1000, *key)
    cluster.wait(lambda status: all(job["shards"] == job["shards_served"] for job in status["jobs"]))


def is_metered(status: dict) -> bool:
    return bool(status["data_sets"]) and all(job["epsilon"] is not None for job in status["jobs"])


def shoot_site(browser: Browser, site: Path, folder: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, page in PAGES.items():
        shoot(browser, f"http://127.0.0.1:{server.server_port}/{page}.html", folder, f"site-{name}")
    server.shutdown()


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        browser = Browser(scratch / "profile")
        cluster = Cluster(scratch)
        try:
            page = cluster.running["status_page"]
            shoot(browser, page, folder, "status-new")
            stage(cluster)
            # The meters look every two seconds.
            cluster.wait(is_metered)
            shoot(browser, page, folder, "status-well")
            cluster.kill_a_worker()
            cluster.wait(lambda status: any(worker["cause"] == "lease_ended" for worker in status["absent_workers"]))
            shoot(browser, page, folder, "status-worker-killed")
            for name, subject in {"plan": ["--plan", cluster.plan], "job": ["--job", "digits"]}.items():
                report = scratch / f"{name}.html"
                cluster.run("report", *subject, "--out", report)
                shoot(browser, report.as_uri(), folder, f"report-{name}")
            if len(sys.argv) > 2:
                shoot_site(browser, Path(sys.argv[2]), folder)
        finally:
            browser.close()
            cluster.close()
    print(f"pictures are in {folder}")


main()
