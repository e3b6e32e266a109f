"""Where Edda has compensations."""

from ._core import (
    compensation,
    on_failure,
    register_compensation,
)

__all__ = [
    "compensation",
    "on_failure",
    "register_compensation",
]
