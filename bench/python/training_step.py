"""What Rustle costs a training step in Python: waiting for noise, copies, and the same work by other libraries.

    make bench-python ARGUMENTS='--record'
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import figures
import overhead
import peers
import rates
import sessions
import steps
import torch

PARTS = ("steps", "overhead", "rates", "peers")


def words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="all unless given")
    parser.add_argument("--quick", action="store_true", help="small ones once: whether it works, not how fast it is")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each measurement")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn of a library")
    parser.add_argument("--threads", type=int, default=2, help="of each library, and of torch in a step")
    parser.add_argument("--folder", type=Path, help="where ledgers lie: a new one in the system's temporary folder")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--record", nargs="?", type=Path, const=figures.ROOT / "bench" / "record", metavar="DIR")
    return parser.parse_args()


def main() -> None:
    arguments = words()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.1
    torch.set_num_threads(arguments.threads)
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="training-step-", dir=arguments.folder))
    target = Path(os.environ.get("CARGO_TARGET_DIR", figures.ROOT / "target"))
    found = {"machine": figures.machine(), "rounds": arguments.rounds}
    text = []
    try:
        for part in arguments.part or PARTS:
            print(f"measuring {part}", file=sys.stderr, flush=True)
            (folder / part).mkdir()
            if part == "steps":
                found[part] = steps.measure(folder / part, arguments.rounds, arguments.quick)
            elif part == "overhead":
                found[part] = overhead.measure(folder / part, arguments.rounds, arguments.quick)
            elif part == "rates":
                found[part] = rates.measure(folder / part, arguments.rounds, arguments.quick)
            else:
                how = (arguments.rounds, arguments.seconds, arguments.threads)
                found[part] = peers.measure(folder / part, *how, target / "package" / "tensorflow", arguments.quick)
            text.append({"steps": steps, "overhead": overhead, "rates": rates, "peers": peers}[part].table(found[part]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    of = found["machine"]
    print(json.dumps(found, indent=2) if arguments.format == "json" else "\n".join(
        [f"{of['processor']}, {of['instruction_set']}, {of['cores']} cores, load {of['load']:.1f}", *text]
    ))
    if arguments.record:
        print(f"recorded: {figures.record(arguments.record, found)}")


if __name__ == "__main__":
    main()
