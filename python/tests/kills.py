"""Trainings killed by SIGKILL wherever they are, and what must hold once they have come to their end."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kill_jobs
from conftest import prepared

import rustle

#: One for each campaign, printed after the tests.
FIGURES: list[str] = []


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
        with rustle.connect(f"inproc://{folder}?threads=1") as session:
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
    return found.replace(dimension=kill_jobs.DIMENSIONS[job])


class Campaign:
    """Runs of one job under one kind of commitment, each killed up to three times on its way to the end."""

    def __init__(self, host: Host, job: str, commitment: str, folder: Path):
        self.host, self.job, self.commitment, self.folder = host, job, commitment, folder
        self.plan, self.random = plan(job), random.Random(f"{job} {commitment}")
        self.at_lines = self.at_moments = self.back = 0
        place = prepared(folder / "whole", self.plan)
        host.run(place, commitment, line=0)
        self.lines = json.loads((place / "end.json").read_text())["lines"]
        self.whole = End.of(place)
        assert self.whole.rows == kill_jobs.STEPS and not self.whole.resumed
        self.seconds = host.run(prepared(folder / "timed", self.plan), commitment)["seconds"]

    def run(self, runs: int) -> None:
        for number in range(runs):
            self._one(prepared(self.folder / f"run{number}", self.plan))
        kills = self.at_lines + self.at_moments
        FIGURES.append(
            f"{self.job}, {self.commitment}: {runs} runs, killed {kills} times, {self.at_lines} at a line of"
            f" {self.lines} and {self.at_moments} at a moment; {self.back} of them opened a branch. None ended"
            f" wrongly: at most {min(1.0, 3 / runs):.1%} of runs do (95 %)."
        )

    def _one(self, place: Path) -> None:
        """Kills at lines and at moments by turns, until the first is a kill and up to two have followed."""
        more, killed = self.random.randint(1, 3), 0
        while killed < more:
            at_line = (self.at_lines + self.at_moments) % 2 == 0
            kill = (
                {"line": self.random.randint(1, self.lines)}
                if at_line
                else {"after": self.random.uniform(0, self.seconds)}
            )
            if self.host.run(place, self.commitment, **kill)["killed"]:
                killed += 1
                self.at_lines += at_line
                self.at_moments += not at_line
            elif killed:
                # What is left of a training can be over before the kill.
                break
            else:
                place = prepared(place.with_name(place.name + "again"), self.plan)
        if not (place / "end.json").exists():
            self.host.run(place, self.commitment)
        end = End.of(place)
        end.check(self.whole, self.commitment)
        self.back += end.branch > 0
