"""Where Edda has policies."""

from ._core import (
    RetryPolicy,
)

__all__ = [
    "RetryPolicy",
]
