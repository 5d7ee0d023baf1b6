"""Warnings for names that have changed."""

import warnings


def warn_renamed(old: str, new: str) -> None:
    """Warns the caller's caller that ``old`` is now ``new``."""
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)
