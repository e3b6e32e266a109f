"""Where Edda has ``workflow``."""

from ._core import (
    recur,
    workflow,
)

__all__ = [
    "recur",
    "workflow",
]
