"""Medians with spreads, the machine they are of, tables and records: as the Rust benches have them."""

from __future__ import annotations

import datetime
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

ROOT = Path(__file__).resolve().parents[2]


def spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "repeats": len(values),
    }


def shown(found: dict[str, float], unit: float = 1.0) -> str:
    """With one unit of ``unit``: "12.3 (11.0 to 13.5)"."""
    median, least, greatest = (found[key] / unit for key in ("median", "min", "max"))
    digits = 2 if median < 10 else 1
    return f"{median:.{digits}f} ({least:.{digits}f} to {greatest:.{digits}f})"


def percent(found: dict[str, float]) -> str:
    return f"{shown(found, 0.01)} %"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(str(row[at])) for row in [header, *rows]) for at in range(len(header))]
    line = lambda row: "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip()
    return "\n".join(["", title, line(header), line(["-" * width for width in widths]), *map(line, rows)])


def machine() -> dict[str, Any]:
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = Path("/proc/cpuinfo").read_text()
    words = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    git = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return {
        "processor": names[0] if names else os.uname().machine,
        "instruction_set": next((s for s in ("avx512f", "avx2") if s in flags), "portable").rstrip("f"),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "revision": git.stdout.strip() if git.returncode == 0 else None,
        "command": f"make bench-python ARGUMENTS='{' '.join(sys.argv[1:])}'",
    }


def record(folder: Path, found: dict[str, Any]) -> Path:
    """Writes ``folder/<processor>/<date>-python.json``."""
    of = found["machine"]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{of['processor']} {of['instruction_set']}".lower()).strip("-")
    path = folder / slug / f"{of['date']}-python.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
    return path
