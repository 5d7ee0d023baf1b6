"""The precision of JAX's matrix products, of which clipped sums under a plan on a grid must have all of float32."""

from __future__ import annotations

import warnings

import jax

from . import errors

_WHOLE = ("highest", "float32", "F32_F32_F32", "F64_F64_F64")


class ProductCheck:
    """Looks at the default precision of products where a sum has its noise, or where that is traced."""

    def __init__(self) -> None:
        self._warned = False

    def check(self) -> None:
        """Refuses a default of fewer bits than float32, and warns once where the device's own may have fewer.

        Raises:
            rustle.errors.InvalidArgument: ``jax_default_matmul_precision`` names fewer bits.
        """
        precision, device = jax.config.jax_default_matmul_precision, jax.default_backend()
        if precision in _WHOLE or (precision in (None, "default") and device == "cpu"):
            return
        out = (
            "a clipped sum that is a product (tensordot, einsum, @) keeps 8 to 11 bits then, which the plan's summing_error does "
            'not cover. Make sums within jax.default_matmul_precision("highest"), and update the privatizer there too'
        )
        if precision not in (None, "default"):
            text = f"jax_default_matmul_precision is {precision!r}; allowed under a plan on a grid: 'highest', 'float32'. {out}"
            raise errors.make("invalid_argument", f"{text}; or take a plan with float=True")
        if not self._warned:
            self._warned = True
            text = f"products of float32 may have fewer bits on {device}, and nothing checks how sums are made: {out}"
            warnings.warn(text, errors.Unchecked, stacklevel=4)
