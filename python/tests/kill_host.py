"""One process that has imported a job's framework and forks a fresh one for each training: ``kill_host.py JOB``.

Importing torch or jax takes seconds, a training here tenths of one. Nothing of a session, and no thread, is there
before the fork; what is killed is the whole process that trains. Reads a request a line, answers with a line.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import kill_federated
import kill_jobs
import kill_ranks
import kill_trainers
import rustle

MODULES = (kill_jobs, kill_trainers, kill_federated, kill_ranks)
WATCHED = (os.path.dirname(rustle.__file__), *(os.path.abspath(module.__file__) for module in MODULES))


class Lines:
    """Counts lines of Rustle's Python code and of the training programs; at ``last`` the process kills itself."""

    def __init__(self, last: int | None):
        self.count, self.last = 0, last

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(WATCHED):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def train(job: Any, folder: Path, commitment: str, line: int | None) -> dict[str, Any]:
    lines = Lines(line)
    # Counting slows Python down: where a moment decides, nothing is counted.
    if line is not None:
        sys.settrace(lines)
    parameters = [array.tobytes() for array in job(folder, commitment)]
    sys.settrace(None)
    digest = hashlib.sha256(b"".join(parameters)).hexdigest()
    with open(folder / "end.json.new", "w") as file:
        json.dump({"digest": digest, "lines": lines.count}, file)
    os.replace(folder / "end.json.new", folder / "end.json")


def run(job: Any, request: dict[str, Any]) -> dict[str, Any]:
    """``line``: where the process kills itself, 0 for never; ``after``: seconds until it is killed from outside."""
    folder, started = Path(request["folder"]), time.monotonic()
    child = os.fork()
    if child == 0:
        # What it starts ends with it: other ranks, and what loads data.
        os.setpgid(0, 0)
        # What frameworks print is no answer.
        os.dup2(2, 1)
        try:
            train(job, folder, request["commitment"], request.get("line"))
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
        os._exit(1)
    if "after" in request:
        time.sleep(request["after"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and status != 0:
        return {"error": f"status {status}"}
    return {"killed": killed, "seconds": time.monotonic() - started}


def main() -> None:
    job = next(module.JOBS[sys.argv[1]] for module in MODULES if sys.argv[1] in module.JOBS)()
    for request in sys.stdin:
        print(json.dumps(run(job, json.loads(request))), flush=True)


if __name__ == "__main__":
    main()
