"""Trainings killed by SIGKILL wherever they are, and what must hold once they have come to their end."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

import kill_federated
import kill_jobs
import kill_ranks
import kill_trainers
from conftest import Cluster, prepared

import rustle

#: One for each campaign, printed after the tests.
FIGURES: list[str] = []

DIMENSIONS = kill_jobs.DIMENSIONS | kill_trainers.DIMENSIONS | kill_federated.DIMENSIONS | kill_ranks.DIMENSIONS


class Host:
    """A ``kill_host.py`` for one job, until it is closed."""

    def __init__(self, job: str):
        command = [sys.executable, Path(__file__).with_name("kill_host.py"), job]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = subprocess.Popen([*map(str, command)], **pipes, text=True)

    def run(self, folder: Path, commitment: str, **kill: float) -> dict[str, Any]:
        self.process.stdin.write(json.dumps({"folder": str(folder), "commitment": commitment, **kill}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer
        return answer

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)


@dataclass(frozen=True)
class End:
    """What a training that came to its end left behind."""

    digest: str
    branch: int
    rows: int
    epsilon: float
    resumed: list[dict[str, int]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> "End":
        url = folder / "url"
        with rustle.connect(url.read_text() if url.exists() else kill_jobs.in_process(folder)) as session:
            report = json.loads(session.report(format="json", delta=1e-5))
            branch = session.branch
        log = folder / "resumed.jsonl"
        return cls(
            json.loads((folder / "end.json").read_text())["digest"],
            branch,
            report["released"]["rows"],
            report["guarantees"][0]["epsilon"],
            [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else [],
        )

    def check(self, whole: "End", commitment: str) -> None:
        """``whole``: the end of the same training without a kill."""
        for resumed in self.resumed:
            went_back = commitment == "declared" and resumed["found"] > resumed["saved"]
            assert (resumed["after"] > resumed["before"]) == went_back, resumed
        same = (self.digest, self.branch, self.rows, self.epsilon)
        if commitment == "exact" or self.branch == 0:
            assert same == (whole.digest, whole.branch, whole.rows, whole.epsilon), (self, whole)
        else:
            # Other noise from the branch on, and everything that was released counts.
            assert self.digest != whole.digest and self.rows > whole.rows, (self, whole)
            assert self.epsilon > whole.epsilon, (self, whole)


def plan(job: str) -> rustle.Plan:
    """Any plan; the federated server's clip norm moves at a tree's restarts."""
    found = rustle.plan(
        float=True,
        iterations=kill_jobs.STEPS,
        epsilon=4,
        delta=1e-5,
        min_sep=4,
        max_participations=3,
        **{"mechanism": "tree"} if job == "federated" else {"mechanism": "band-mf", "size": 4},
    )
    if job == "federated":
        found = found.with_restarts([5, 9], True).replace(noise_multiplier=1.0, clip_norm=3.0)
    if job == "nvflare":
        return found.replace(parameters=[("w", [DIMENSIONS[job]])])
    return found.replace(dimension=DIMENSIONS[job])


class Campaign:
    """Runs of one job under one kind of commitment, each killed up to three times on its way to the end."""

    AFTERWARDS = "opened a branch"

    def __init__(self, host: Host, job: str, commitment: str, folder: Path):
        self.host, self.job, self.commitment, self.folder = host, job, commitment, folder
        self.plan, self.random = plan(job), random.Random(f"{job} {commitment}")
        self.at_lines = self.at_moments = self.back = 0
        with self.begun("whole") as place:
            host.run(place, commitment, line=0)
            self.lines = json.loads((place / "end.json").read_text())["lines"]
            self.whole = End.of(place)
        assert self.whole.rows == kill_jobs.STEPS and not self.whole.resumed
        with self.begun("timed") as place:
            self.seconds = host.run(place, commitment)["seconds"]

    @contextlib.contextmanager
    def begun(self, name: str) -> Iterator[Path]:
        """A folder to train in, with a cluster of its own where a cluster makes the job's rows."""
        place = prepared(self.folder / name, self.plan)
        if self.job not in kill_ranks.DIMENSIONS:
            yield place
            return
        cluster = Cluster(place, workers=1)
        try:
            (place / "url").write_text(cluster.url())
            yield place
        finally:
            cluster.stop()

    def run(self, runs: int) -> None:
        for number in range(runs):
            again = 0
            # A training can be over before the kill.
            while not self._one(f"run{number}-{again}"):
                again += 1
        kills = self.at_lines + self.at_moments
        FIGURES.append(
            f"{self.job}, {self.commitment}: {runs} runs, killed {kills} times, {self.at_lines} at a line of"
            f" {self.lines} and {self.at_moments} at a moment; {self.back} of them {self.AFTERWARDS}. None ended"
            f" wrongly: at most {min(1.0, 3 / runs):.1%} of runs do (95 %)."
        )

    def killed(self, place: Path) -> bool:
        """Trains on, with a kill at a line or at a moment by turns. Returns whether the training was killed before its end."""
        at_line = (self.at_lines + self.at_moments) % 2 == 0
        kill = {"line": self.random.randint(1, self.lines)} if at_line else {"after": self.random.uniform(0, self.seconds)}
        if not self.host.run(place, self.commitment, **kill)["killed"]:
            return False
        self.at_lines += at_line
        self.at_moments += not at_line
        return True

    def _one(self, name: str) -> bool:
        """Returns whether a run was killed at all; up to two more kills follow the first."""
        more, killed = self.random.randint(1, 3), 0
        with self.begun(name) as place:
            while killed < more and self.killed(place):
                killed += 1
            if not killed:
                return False
            if not (place / "end.json").exists():
                self.host.run(place, self.commitment)
            self.check(place)
        return True

    def check(self, place: Path) -> None:
        kill_federated.check_clients(place, self.plan)
        end = End.of(place)
        end.check(self.whole, self.commitment)
        self.back += end.branch > 0


class RefusingCampaign(Campaign):
    """Runs of a job that can't be resumed: begun again in its folder it is refused, unless nothing was released."""

    AFTERWARDS = "were refused when begun again"

    def _one(self, name: str) -> bool:
        with self.begun(name) as place:
            if not self.killed(place):
                return False
            before = released(place)
            self.host.run(place, self.commitment)
            assert (place / "refused").exists() == (before > 0), before
            if before:
                assert released(place) == before
                self.back += 1
            else:
                self.check(place)
        return True


def released(folder: Path) -> int:
    with rustle.connect(kill_jobs.in_process(folder)) as session:
        return session.next_step
