"""Runs what a page of the documentation shows: its programs are written down, its commands typed in one shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("RUSTLE_BIN", ROOT / "target/release/rustle"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of every fenced block."""
    return BLOCK.findall(page.read_text())


def run(page: Path, folder: Path) -> str:
    """Standard output and error of all commands; the first that fails ends it."""
    commands = []
    for language, title, text in blocks(page):
        if title:
            (folder / title).write_text(text)
        elif language == "sh":
            commands.append(text)
        else:
            raise ValueError(f"{page}: a block of {language} is neither a file nor commands: {text}")
    # Whatever a page leaves running ends with it.
    script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(commands)
    python = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{python}:{os.environ['PATH']}"}
    environment.pop("RUSTLE_COORDINATOR", None)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
