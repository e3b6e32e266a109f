"""Where Edda has its exceptions."""

from ._core import (
    RetryExhaustedError,
    TerminalError,
    WorkflowCancelledException,
)

__all__ = [
    "RetryExhaustedError",
    "TerminalError",
    "WorkflowCancelledException",
]
