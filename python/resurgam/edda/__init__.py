"""Edda's words on this engine: only the import lines change.

::

    from resurgam.edda import EddaApp, WorkflowContext, activity, workflow

Attempts survive a crash, an exception keeps its class, and what an activity has registered to undo it
is never forgotten. Channels, the outbox and ``ctx.session`` are not offered; the guide for those who
come from Edda has the list.
"""

from . import activity as _activity_module, workflow as _workflow_module  # noqa: F401
from ._core import (
    EddaApp,
    EventTimeoutError,
    ReceivedEvent,
    RetryExhaustedError,
    RetryPolicy,
    TerminalError,
    WorkflowCancelledException,
    WorkflowContext,
    activity,
    compensation,
    on_failure,
    recur,
    register_compensation,
    sleep,
    sleep_until,
    wait_event,
    workflow,
)

__all__ = [
    "EddaApp",
    "EventTimeoutError",
    "ReceivedEvent",
    "RetryExhaustedError",
    "RetryPolicy",
    "TerminalError",
    "WorkflowCancelledException",
    "WorkflowContext",
    "activity",
    "compensation",
    "on_failure",
    "recur",
    "register_compensation",
    "sleep",
    "sleep_until",
    "wait_event",
    "workflow",
]
