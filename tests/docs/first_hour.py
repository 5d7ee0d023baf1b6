"""What a newcomer and a new operator do first, by the commands that the pages show, counted and timed: first_hour.py [WHEEL].

Without WHEEL the first task, which installs it into a fresh environment, is left out. Fails where a task takes more commands
or seconds than its limit, or does not do what its page says.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from blocks import BLOCK, PROGRAM, ROOT

TIMEOUT = 120
PLAN = (
    "rustle plan optimize --mechanism blt --iterations 400 --min-sep 40 --max-participations 10"
    " --noise-multiplier 2 --float --out plan.toml"
)


def block(page, heading):
    """The first block of commands, or program, below a heading."""
    text = (ROOT / page).read_text()
    assert f"\n{heading}\n" in text, f"{page} has no {heading}"
    return BLOCK.search(text.split(f"\n{heading}\n")[1])[3]


def count(script):
    """Commands of a script. One that continues in the next line is one."""
    lines = script.replace("\\\n", " ").splitlines()
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Shell:
    """A folder, and a port of its own in place of the one that pages name."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.port = free_port()
        self.prometheus = free_port()

    def run(self, script, then=""):
        """Types the script, then what a test adds. Returns standard output and error, and seconds of all of it."""
        script = script.replace("127.0.0.1:7300", f"127.0.0.1:{self.port}")
        # A person waits for "coordinator ready" before the next command.
        listens = f"until (exec 3<>/dev/tcp/127.0.0.1/{self.port}) 2>/dev/null; do sleep 0.1; done"
        script = re.sub(r"^(rustle coordinator .*&)$", rf"\1\n{listens}", script, flags=re.MULTILINE)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RUSTLE_")}
        environment["PATH"] = f"{PROGRAM.parent}:{environment['PATH']}"
        environment["RUSTLE_LISTEN"] = f"127.0.0.1:{self.port}"
        environment["RUSTLE_COORDINATOR"] = f"http://127.0.0.1:{self.port}"
        end = "trap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n"
        began = time.monotonic()
        with open(self.folder / "said", "w+") as said:
            done = subprocess.run(
                ["bash", "-c", f"set -euo pipefail\n{end}{script}\n{then}"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=TIMEOUT,
            )
            said.seek(0)
            text = said.read()
        assert done.returncode == 0, text
        return text, time.monotonic() - began


def noise_in_a_script(shell, wheel):
    program = block("docs/python.md", "## A first run")
    (shell.folder / "first.py").write_text(program)
    began = time.monotonic()
    venv.create(shell.folder / "venv", with_pip=True)
    script = f"venv/bin/pip install --quiet {wheel}\nvenv/bin/python first.py"
    shell.run(script)
    seconds = time.monotonic() - began
    assert "ε" in (shell.folder / "run/report.md").read_text()
    return count(script) + 1, seconds


def tls_and_tokens(shell, _):
    script = block("docs/security.md", "### TLS and tokens, whole")
    shell.run(PLAN)
    said, seconds = shell.run(script)
    assert re.search(r"job +┆ digits", said), said
    return count(script), seconds


def which_mechanism(shell, _):
    script = first_of("docs/choosing.md")
    said, seconds = shell.run(script)
    assert "recommended" in said, said
    return count(script), seconds


def first_of(page):
    return next(text for language, _, text in BLOCK.findall((ROOT / page).read_text()) if language == "sh")


def up(shell):
    """A cluster with a job, and a loop that waits until it runs: what the task begins with."""
    shell.run(PLAN)
    return "rustle up --plan plan.toml --dimension 1000 --listen 127.0.0.1:7300 >up.log 2>&1 &\nuntil grep -q running up.log; do sleep 0.1; done\n"


def what_was_spent(shell, _):
    script = block("docs/troubleshooting.md", "## What a job has spent")
    fetch = "rustle fetch --job default --steps 0..40 --range 0..8 --commitment x --out rows.npy\n"
    before = up(shell) + fetch
    said, _ = shell.run(before + "date +%s.%N >began", f"{script}\ndate +%s.%N >ended")
    began, ended = (float((shell.folder / name).read_text()) for name in ("began", "ended"))
    assert "ε" in said and "--delta" not in script, said
    return count(script), ended - began


def lost_disk(shell, _):
    backup = block("docs/operations.md", "## Backup")
    script = block("docs/operations.md", "### Restoring")
    create = "rustle key new --out job.key\nrustle job create --job kept --plan plan.toml --dimension 1000 --key-file job.key\n"
    begin = f"{PLAN}\nrustle ledger init --data-dir coordinator\nrustle coordinator --data-dir coordinator &\n"
    shell.run(begin + create + backup)
    shutil.rmtree(shell.folder / "coordinator")
    said, seconds = shell.run(script.rstrip() + " &\n", "rustle job list")
    assert re.search(r"│ kept +┆ running", said), said
    return count(script), seconds


def prometheus(shell, _):
    script = block("deploy/README.md", "### On a running cluster")
    shutil.copytree(ROOT / "deploy/prometheus", shell.folder / "deploy/prometheus")
    # A port and a folder of its own, and a process that ends with the script.
    flags = f"--storage.tsdb.path=tsdb --web.listen-address=127.0.0.1:{shell.prometheus} &"
    (shell.folder / "watch.py").write_text(WATCH)
    watch = f"{sys.executable} watch.py http://127.0.0.1:{shell.prometheus}/api/v1/"
    before = up(shell) + "date +%s.%N >began\n"
    shell.run(before + script.rstrip() + f" {flags}\n{watch}\ndate +%s.%N >ended")
    began, ended = (float((shell.folder / name).read_text()) for name in ("began", "ended"))
    return count(script), ended - began


# Waits until the coordinator and both workers are scraped, and the alerts are loaded.
WATCH = """
import json, sys, time, urllib.request
def ask(call):
    try:
        return json.load(urllib.request.urlopen(sys.argv[1] + call))["data"]
    except OSError:
        return {}
deadline = time.monotonic() + 60
while True:
    targets = [target["health"] for target in ask("targets").get("activeTargets", [])]
    rules = [rule["name"] for group in ask("rules").get("groups", []) for rule in group["rules"]]
    if targets == ["up"] * 3 and "RustleCoordinatorDown" in rules:
        break
    assert time.monotonic() < deadline, (targets, rules)
    time.sleep(0.2)
"""

# Task, the most commands, the most seconds.
TASKS = [
    ("noise in a script, from a wheel", noise_in_a_script, 3, 60),
    ("a cluster with TLS and tokens", tls_and_tokens, 8, 60),
    ("which mechanism", which_mechanism, 1, 15),
    ("what did my job spend", what_was_spent, 1, 15),
    ("a lost disk restored", lost_disk, 4, 60),
    ("Prometheus and alerts on a running cluster", prometheus, 3, 60),
]


def main(wheel=None):
    print(f"{'task':<44} {'commands':>8} {'limit':>5} {'seconds':>8} {'limit':>5} {'CPU s':>6}")
    slow = []
    for task, function, commands, seconds in TASKS:
        if function is noise_in_a_script and wheel is None:
            print(f"{task:<44} {'no wheel':>8}")
            continue
        before = os.times()
        with tempfile.TemporaryDirectory() as folder:
            took, elapsed = function(Shell(folder), wheel and Path(wheel).resolve())
        after = os.times()
        # With what the task begins with; on a busy machine the seconds are more than an idle one takes.
        busy = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"{task:<44} {took:>8} {commands:>5} {elapsed:>8.1f} {seconds:>5} {busy:>6.1f}", flush=True)
        if took > commands or elapsed > seconds:
            slow.append(task)
    sys.exit(f"beyond the limit: {', '.join(slow)}" if slow else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
