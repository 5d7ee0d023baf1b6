"""What the processes of a training take, as Linux counts it."""

import os
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def family() -> list[dict[str, Any]]:
    """Returns memory in bytes and seconds of the CPU so far, of this process and all that it started."""
    return [_figures(process) for process in _descendants(os.getpid())]


def _descendants(first: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Its name, in parentheses, may hold anything.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [first]
    for process in found:
        found += children.get(process, [])
    return found


def _figures(process: int) -> dict[str, Any]:
    folder = Path("/proc") / str(process)
    sizes = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    user, system = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
    return {
        "name": _name((folder / "cmdline").read_text().split("\0")) if process != os.getpid() else "training",
        "peak": _bytes(sizes["VmHWM"]),
        "own": _bytes(sizes["RssAnon"]),
        "shared": _bytes(sizes["RssShmem"]),
        "cpu_seconds": (int(user) + int(system)) / _TICKS,
    }


def _name(words: list[str]) -> str:
    """Of a worker its own, of other processes the command of ``rustle``."""
    if "--name" in words:
        return words[words.index("--name") + 1]
    return words[1] if len(words) > 1 else words[0]


def _bytes(kilobytes: str) -> int:
    return 1024 * int(kilobytes.split()[0])
