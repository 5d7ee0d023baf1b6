"""Named arrays as one vector, in the order of a session's plan."""

from __future__ import annotations

from typing import Any, Mapping, Union

import numpy as np

from .. import _arguments, errors
from .._layout import Layout

Arrays = Union[np.ndarray, Mapping[str, np.ndarray]]

_WHOLE = "parameters"


class Vectors:
    """How the arrays of ``like`` lie in the vector whose noise a session makes.

    ``like``: an array, or arrays by name. ``extra``: names of numbers that the vector holds beside them.
    """

    def __init__(self, like: Arrays, session: Any, extra: tuple[str, ...] = ()):
        self._one = not isinstance(like, Mapping)
        arrays = dict(like) if isinstance(like, Mapping) else {_WHOLE: np.asarray(like)}
        shapes = [(name, np.shape(array)) for name, array in arrays.items()]
        shapes += [(name, ()) for name in extra]
        named = session.plan.parameters
        one = self._one and len(named) == 1 + len(extra)
        self.layout = Layout.of([(named[0][0] if one and n == _WHOLE else n, s) for n, s in shapes], session)
        self._main = named[0][0] if one else _WHOLE
        self._extra = extra
        self._types = {name: np.asarray(array).dtype for name, array in arrays.items()}
        for name, dtype in self._types.items():
            _arguments.real(name, dtype, dtype.kind not in "cb")
        self.dimension = session.dimension

    def flat(self, arrays: Arrays) -> np.ndarray:
        """One vector, float64, zero at the extra numbers. Refuses other names and shapes."""
        given = {self._main: np.asarray(arrays)} if self._one else arrays
        if not isinstance(given, Mapping):
            raise errors.make(
                "layout", f"{type(arrays).__name__} given; allowed: arrays by name, as at the start"
            )
        vector = np.zeros(self.dimension)
        names = [name for name in self.layout.parameters if name not in self._extra]
        if set(given) != set(names):
            odd = sorted(set(given) ^ set(names))
            raise errors.make("layout", f"arrays {odd} are missing or not known; allowed: {names}")
        for name in names:
            parameter, array = self.layout.parameters[name], np.asarray(given[name])
            if array.shape != parameter.shape:
                raise errors.make("layout", f"{name} has shape {array.shape}; allowed: {parameter.shape}")
            _arguments.real(name, array.dtype, array.dtype.kind not in "cb")
            vector[parameter.start : parameter.start + parameter.size] = array.reshape(-1)
        return vector

    @staticmethod
    def summed_in(arrays: Arrays) -> str:
        """The type that a sum of these arrays can have been added in: float32 where one of them is."""
        parts = arrays.values() if isinstance(arrays, Mapping) else [arrays]
        whole = all(np.asarray(part).dtype.itemsize >= 8 or np.asarray(part).dtype.kind in "iu" for part in parts)
        return "float64" if whole else "float32"

    def check_bits(self, arrays: Arrays) -> None:
        """Refuses a sum in fewer bits than float32, which no plan on a grid accounts for."""
        for name, array in (arrays.items() if isinstance(arrays, Mapping) else [(self._main, arrays)]):
            dtype = np.asarray(array).dtype
            # Types that numpy does not know by itself, such as bfloat16, are of kind V.
            if dtype.kind == "V" or (dtype.kind == "f" and dtype.itemsize < 4):
                text = (
                    f"the sum {name!r} is {dtype}; allowed under a plan on a grid: float32 or float64, as its summing_error covers "
                    "no sum in fewer bits. Add updates in float64, or give the updates themselves to step"
                )
                raise errors.make("invalid_argument", text)

    def arrays(self, vector: np.ndarray) -> Any:
        """The arrays again, copies of the types that they had."""
        made = {}
        for name, parameter in self.layout.parameters.items():
            if name not in self._extra:
                part = vector[parameter.start : parameter.start + parameter.size].reshape(parameter.shape)
                made[name] = part.astype(self._types[_WHOLE if self._one else name])
        return made[self._main] if self._one else {name: made[name] for name in self._types}

    def at(self, extra: str) -> int:
        """The coordinate of an extra number."""
        return self.layout.parameters[extra].start
