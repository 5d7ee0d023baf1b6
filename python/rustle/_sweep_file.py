"""The file of a sweep: its space, and what each of its runs drew and scored."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any, Callable

from . import _arguments, errors

_SPACE = "names with lists of values, such as {'rate': [0.1, 0.2]}"
_VALUES = "finite numbers, texts, True, False, None, and lists or dicts of them, which the sweep's file keeps as JSON"
_FIELDS = {"job", "parameters", "score", "abandoned", "rows"}


def plain_space(space: Any) -> dict[str, list[Any]]:
    """Returns the values of each parameter as JSON has them, and refuses what is no space."""
    if not isinstance(space, dict):
        raise _arguments.refused("space", space, _SPACE)
    found = {}
    for name, values in space.items():
        if not isinstance(name, str):
            raise _arguments.refused("a name of space", name, _SPACE)
        has_order = not isinstance(values, (str, bytes, dict, set, frozenset)) and getattr(values, "ndim", 1) != 0
        if not has_order or not hasattr(values, "__iter__"):
            raise _arguments.refused(f"space[{name!r}]", values, _SPACE)
        found[name] = [_plain(f"space[{name!r}][{at}]", value) for at, value in enumerate(values)]
        if not found[name]:
            raise errors.make("invalid_argument", f"space has no values of {name!r}; allowed: one or more")
    return found


def _plain(name: str, value: Any) -> Any:
    """Returns a value of a parameter as it is read back from JSON."""
    if not isinstance(value, type) and hasattr(value, "ndim") and hasattr(value, "tolist"):
        # Of numpy and of other arrays alike.
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}[{at}]", each) for at, each in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(f"{name}[{key!r}]", each) for key, each in value.items()}
    raise _arguments.refused(name, value, _VALUES)


class RunsFile:
    """What a sweep keeps beside the ledger, of mode 0600."""

    def __init__(self, path: Path, space: dict[str, list[Any]]):
        self.path, self._space = path, space

    def read(self) -> dict[str, Any]:
        """Returns the space and the runs.

        Raises:
            rustle.errors.StoreError: The file is not as it was written.
        """
        try:
            stored = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {"space": self._space, "runs": {}}
        except (OSError, ValueError) as error:
            raise self._damaged(str(error)) from error
        if not isinstance(stored, dict) or not isinstance(stored.get("space"), dict) or not isinstance(stored.get("runs"), dict):
            raise self._damaged("it has no space or no runs")
        for number, run in stored["runs"].items():
            if not isinstance(run, dict) or not _FIELDS <= run.keys():
                raise self._damaged(f"run {number} is not whole")
        return stored

    def edit(self, change: Callable[[dict[str, dict[str, Any]]], Any]) -> None:
        """Lets a function change the runs, and writes them if it did."""
        stored = self.read()
        before = json.dumps(stored)
        change(stored["runs"])
        if json.dumps(stored) == before:
            return
        # Of mode 0600, and whole under its name or not there.
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, suffix=".sweep.json", delete=False) as file:
            json.dump(stored, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _damaged(self, why: str) -> errors.RustleError:
        text = f"{self.path} can't be read ({why}); allowed: the file as it was, with the parameters that runs drew. Restore it"
        return errors.make("store", text)
