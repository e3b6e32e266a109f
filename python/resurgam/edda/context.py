"""Where Edda has its context."""

from ._core import (
    WorkflowContext,
)

__all__ = [
    "WorkflowContext",
]
