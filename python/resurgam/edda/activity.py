"""Where Edda has ``activity``."""

from ._core import (
    activity,
)

__all__ = [
    "activity",
]
