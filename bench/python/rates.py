"""Bytes a second of ``fetch_into``, rows being ready, beside copies of the same bytes in the same process, in turn."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Callable

import figures
import numpy as np
import sessions
import torch

#: Of the copy bandwidth.
LIMIT = 0.7
DIMENSION = 10_000_000
#: Seconds in which the row after is made, and reserved, before each fetch; so many fetches a round.
PAUSE, FETCHES = 0.4, 3


def measure(folder: Path, rounds: int, quick: bool) -> list[dict[str, Any]]:
    dimension = DIMENSION // 10 if quick else DIMENSION
    made = sessions.plan(dimension, max(200, FETCHES * (rounds + 1)))
    source, out = np.ones(dimension, np.float32), np.ones(dimension, np.float32)
    here, there = torch.from_numpy(source), torch.from_numpy(out)
    copies = {"numpy": lambda: np.copyto(out, source), "torch": lambda: there.copy_(here)}
    with contextlib.ExitStack() as open_ones:
        fetches, reserve = {}, {}
        for way in sessions.WAYS:
            for name in (way, f"{way}, reserved"):
                session = open_ones.enter_context(sessions.session(way, folder / name.replace(", ", "-"), made))
                fetches[name] = lambda session=session: session.fetch_into(session.next_step, out)
                if name != way:
                    reserve[name] = session.reserve
        # The first fetch begins a job's rows; it and the first copies warm up.
        for call in (*fetches.values(), *copies.values()):
            call()
        rates: dict[str, list[float]] = {name: [] for name in (*fetches, *copies)}
        for _ in range(rounds * FETCHES):
            for way, fetch in fetches.items():
                if way in reserve:
                    reserve[way]()
                time.sleep(PAUSE)
                for name, call in ((way, fetch), *copies.items()):
                    rates[name].append(_rate(call, dimension))
    return [_found(way, rates, list(copies), dimension) for way in fetches]


def _rate(call: Callable[[], object], dimension: int) -> float:
    started = time.perf_counter()
    call()
    return 4 * dimension / (time.perf_counter() - started)


def _found(way: str, rates: dict[str, list[float]], copies: list[str], dimension: int) -> dict[str, Any]:
    """Beside the faster of the two copies: NumPy's has one thread, torch's has all."""
    spreads = {name: figures.spread(rates[name]) for name in copies}
    best = max(copies, key=lambda name: spreads[name]["median"])
    found = {
        "way": way,
        "bytes": 4 * dimension,
        "bytes_per_second": figures.spread(rates[way]),
        "copies_bytes_per_second": spreads,
        "copy": best,
        "limit": LIMIT,
    }
    found["of_copy"] = found["bytes_per_second"]["median"] / spreads[best]["median"]
    found["of_one_thread"] = found["bytes_per_second"]["median"] / spreads["numpy"]["median"]
    found["met"] = found["of_copy"] >= LIMIT
    return found


def table(found: list[dict[str, Any]]) -> str:
    rows = []
    for one in found:
        copies = [figures.shown(one["copies_bytes_per_second"][name], 1e9) for name in ("numpy", "torch")]
        shares = [f"{one['of_one_thread']:.2f}", f"{one['of_copy']:.2f}", "yes" if one["met"] else "no"]
        rows.append([one["way"], figures.shown(one["bytes_per_second"], 1e9), *copies, *shares])
    header = ["noise", "fetch_into, GB/s", "copy by NumPy, one thread", "by torch, all", "of one", "of the faster"]
    return figures.table(f"fetch_into of {found[0]['bytes'] // 4:.0e} coordinates", [*header, f"≥ {LIMIT}"], rows)
