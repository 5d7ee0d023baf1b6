"""Checks of arguments' types, whose refusals name the argument, its value and what is allowed.

Values pass through as Python's own types, so that numpy's scalars, and tensors of one number, are numbers here too.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from . import errors
from ._native import Plan

Kind = TypeVar("Kind")

# Numbers beyond it are none of this package's: counts, steps and coordinates.
_MOST = 2**63 - 1
# Characters of a value that a refusal shows.
_SHOWN = 80


def shown(value: Any) -> str:
    """Returns a value as a refusal shows it: short, and of bytes, which may be secret, their number alone."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{type(value).__name__} of length {len(value)}"
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def refused(name: str, value: Any, allowed: str, kind: str = "invalid_argument") -> errors.RustleError:
    """Returns the error of a value that is not allowed."""
    return errors.make(kind, f"{name} is {shown(value)}; allowed: {allowed}")


def whole(name: str, value: Any, least: int = 0, kind: str = "invalid_argument") -> int:
    """Returns a whole number of at least ``least``: an int, or what is one without loss; no bool, no float."""
    try:
        found = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= _MOST:
        limit = f", {least} or more" if found is None or found < least else f" from {least} to 2^63 − 1"
        raise refused(name, value, f"a whole number{limit}", kind)
    return found


def number(name: str, value: Any) -> float:
    """Returns a real number as a float. Its range is for the caller, or what it calls, to check."""
    if not isinstance(value, (str, bytes, bool, np.bool_)) and hasattr(value, "__float__"):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            pass
    raise refused(name, value, "a number")


def above_zero(name: str, value: Any) -> float:
    """Returns a finite number above zero."""
    found = number(name, value)
    if not 0 < found < float("inf"):
        raise refused(name, value, "finite and above zero")
    return found


def real(name: str, dtype: Any, is_real: bool) -> None:
    """Refuses values of a type that real noise is lost in, such as complex numbers, whose imaginary part would have none."""
    if not is_real:
        text = f"{name} is {dtype}; allowed: floating-point numbers, as noise is. Of complex numbers train real and imaginary part"
        raise errors.make("invalid_argument", text)


def numbers(name: str, values: Any) -> list[float]:
    """Returns the numbers of a list, an array, or whatever else has some in an order."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable) or np.ndim(values) == 0:
        raise refused(name, values, "a list of numbers")
    return [number(f"{name}[{at}]", value) for at, value in enumerate(values)]


def wholes(name: str, values: Any) -> list[int]:
    """Returns the whole numbers, 0 or more, of a list, an array, or whatever else has some in an order."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable) or np.ndim(values) == 0:
        raise refused(name, values, "a list of whole numbers")
    return [whole(f"{name}[{at}]", value) for at, value in enumerate(values)]


def flag(name: str, value: Any) -> bool:
    """Returns a bool; whatever is merely true or false in a condition is refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise refused(name, value, "True, False")
    return bool(value)


def text(name: str, value: Any, allowed: str = "a text") -> str:
    """Returns a text."""
    if not isinstance(value, str):
        raise refused(name, value, allowed)
    return value


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Returns a word that is one of several."""
    if not isinstance(value, str) or value not in allowed:
        raise refused(name, value, ", ".join(allowed))
    return value


def path(name: str, value: Any) -> str:
    """Returns a path as a text."""
    found = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str) or not found or "\0" in found:
        raise refused(name, value, "a path, as a text or a pathlib.Path")
    return found


def octets(name: str, value: Any, allowed: str, kind: str = "invalid_argument") -> bytes:
    """Returns bytes. A number is none, of which Python would make so many zeros. The value, which may be secret, is not shown."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise errors.make(kind, f"{name} is of type {type(value).__name__}; allowed: {allowed}")
    return bytes(value)


def instance(name: str, value: Any, kind: type[Kind], allowed: str) -> Kind:
    """Returns an object of one of the package's classes."""
    if not isinstance(value, kind):
        raise refused(name, value, allowed)
    return value


def plan(value: Any) -> Plan:
    """Returns a plan; its file's name is none."""
    return instance("plan", value, Plan, "a rustle.Plan, as rustle.plan returns it and rustle.Plan.load reads it")


def function(name: str, value: Any, allowed: str) -> Any:
    """Returns what can be called."""
    if not callable(value):
        raise refused(name, value, allowed)
    return value


def parameters(value: Any) -> list[tuple[str, list[int]]]:
    """Returns names and shapes of parameters."""
    allowed = "pairs of a name and a shape, such as [('weight', (10, 5)), ('bias', (10,))]"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise refused("parameters", value, allowed)
    found = []
    for at, pair in enumerate(value):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise refused(f"parameters[{at}]", pair, allowed)
        name, shape = pair
        of = f"the shape of parameter {name!r}"
        if isinstance(shape, (str, bytes, Mapping)) or not isinstance(shape, Iterable):
            raise refused(of, shape, "a tuple of lengths, such as (10, 5)")
        lengths = list(shape)
        try:
            found.append((name, [whole(of, length) for length in lengths]))
        except errors.InvalidArgument:
            raise refused(of, tuple(lengths), "lengths that are whole numbers, 0 or more") from None
    return found


def write(path: str, text: str) -> None:
    """Writes a text to a file.

    Raises:
        rustle.errors.StoreError: The file can't be written.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        said = f"path is {path!r}, which can't be written ({error.strerror}); allowed: a file in a folder that is there"
        raise errors.make("store", said) from error
