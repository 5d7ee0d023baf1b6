"""Changes of a data set that take two persons, as a training meets them: a coordinator with tokens, and a ledger in a folder."""

import json
import subprocess
import time

import numpy as np
import pytest
from conftest import BINARY, DIMENSION, write_key

import rustle
from rustle import errors

TOKENS = {
    "operator": ["--role", "operator", "--person", "ann"],
    "trainer": ["--role", "trainer", "--job", "letters", "--person", "ann"],
    "ann": ["--role", "approver", "--person", "ann"],
    "ben": ["--role", "approver", "--person", "ben"],
    "worker": ["--role", "worker"],
}


class Guarded:
    """A coordinator that requires tokens and a worker, with a job whose data set lets a job rewind once without an approval."""

    def __init__(self, folder, plan):
        self.folder, self.processes = folder, []
        folder.mkdir()
        plan.save(folder / "plan.toml")
        key = write_key(folder / "job.key")
        for name, words in TOKENS.items():
            self.run("token", "new", *words, "--out", self.token(name), "--tokens-file", folder / "tokens")
        self.run("ledger", "init", "--data-dir", folder / "data")
        words = ["--data-dir", folder / "data", "--tokens-file", folder / "tokens", "--listen", "127.0.0.1:0"]
        self.address = self.start("coordinator", *words, "--metrics-listen", "127.0.0.1:0")
        words = ["--coordinator", self.address, "--name", "worker-0", "--token-file", self.token("worker")]
        self.start("worker", *words, "--key-file", key, "--state-dir", folder / "state", "--threads", "1")
        amount = ["--epsilon", "20", "--delta", "1e-5"]
        self.call("budget", "create", "mails", "--unit", "user", *amount, "--require-approver", "--free-rewinds", "1")
        words = ["--job", "letters", "--plan", folder / "plan.toml", "--key-file", key, "--data-set", "mails"]
        self.call("job", "create", *words, "--dimension", DIMENSION, "--shards", "1")

    def token(self, name):
        return self.folder / f"{name}.token"

    def run(self, *words):
        done = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, *words, token="operator"):
        return self.run(*words, "--coordinator", self.address, "--token-file", self.token(token))

    def approve(self, error, person):
        """What the error says is to be done: it ends with the command."""
        command = error.fields["remedy"].partition("exactly this: rustle ")[2]
        self.call(*command.split(), token=person)

    def start(self, role, *words):
        ready = self.folder / f"{role}.json"
        log = open(self.folder / f"{role}.log", "wb")
        command = [BINARY, role, *map(str, words), "--ready-file", ready, "--exit-with-parent"]
        process = subprocess.Popen(list(map(str, command)), stderr=log, stdout=log)
        self.processes.append(process)
        while not ready.exists():
            assert process.poll() is None, (self.folder / f"{role}.log").read_text()
            time.sleep(0.02)
        return json.loads(ready.read_text())["grpc"]

    def connect(self, token="trainer"):
        address = self.address.removeprefix("http://")
        return rustle.connect(f"grpc://{address}?job=letters&token_file={self.token(token)}&timeout=60")

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait(60)
        self.processes = []


@pytest.fixture
def guarded(tmp_path, plan):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    started = Guarded(tmp_path / "guarded", plan)
    yield started
    started.stop()


def refused(change):
    with pytest.raises(errors.ApprovalRequired) as found:
        change()
    error = found.value
    assert (error.kind, error.retry_safe) == ("approval_required", False)
    assert set(error.fields) == {"data_set", "change", "reason", "remedy"} and error.fields["data_set"] == "mails"
    assert all(error.fields[name] in str(error) for name in error.fields), error
    return error


def train(session, steps):
    for step in range(session.next_step, steps):
        session.privatize_(np.zeros(DIMENSION, np.float32), step)


def test_a_rewind_beyond_the_free_ones_takes_another_person(guarded):
    with guarded.connect() as session:
        cursor = session.cursor()
        train(session, 2)
        session.restart(1)
        assert session.branch == 1, "the first one is free"
        train(session, 3)
        error = refused(lambda: session.restart(1))
        assert error.fields["change"] == "a rewind of job letters to row 1 of branch 1"
        assert error.fields["reason"] == "no person has approved it"
        # Nothing was done, and the job can train on.
        assert (session.branch, session.next_step) == (1, 3)
        train(session, 4)
        guarded.approve(error, "ann")
        assert "ann has approved it" in refused(lambda: session.restart(1)).fields["reason"]
        guarded.approve(error, "ben")
        # What was approved is that row and no other.
        assert "what ben approved is" in refused(lambda: session.restart(2)).fields["reason"]
        session.restart(1)
        assert (session.branch, session.next_step) == (2, 1)
        train(session, 2)
        # A resume that opens a branch is a rewind too, and an approval is used once.
        error = refused(lambda: session.resume(cursor))
        assert error.fields["change"] == "a rewind of job letters to row 0 of branch 0, from branch 2"
        guarded.approve(error, "ben")
        with pytest.warns(errors.BranchOpened):
            assert session.resume(cursor)
        assert (session.branch, session.next_step) == (3, 0)
        train(session, 1)
    entries = json.loads(guarded.call("budget", "history", "mails", "--format", "json"))["entries"]
    text = json.dumps(entries).replace("\\", "")
    assert text.count('"approver":"ben","operator":"ann"') == 2, text
    report = guarded.call("budget", "report", "mails")
    lines = [line for line in report.splitlines() if "a rewind of job letters" in line]
    assert len(lines) == 2 and all("| ben | ann | trainer token" in line for line in lines), report


def test_a_folder_knows_no_persons_and_opens_no_data_set_with_the_rule(guarded):
    guarded.stop()
    url = f"inproc://{guarded.folder / 'data'}"
    for epsilon in (20, 30):
        with pytest.raises(errors.AlreadyExists, match="approval_rule is with 1 rewinds free"):
            rustle.DataSet(url, "mails", unit="user", epsilon=epsilon, delta=1e-5)
    with pytest.raises(errors.AlreadyExists, match="data set is mails"):
        rustle.connect(f"{url}?job=letters&plan={guarded.folder / 'plan.toml'}&key_file={guarded.folder / 'job.key'}")
