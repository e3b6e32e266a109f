"""Edda's words on this engine: only the import lines change.

::

    from resurgam.edda import EddaApp, WorkflowContext, activity, workflow

Attempts survive a crash, an exception keeps its class, and what an activity has registered to undo it
is never forgotten. ``ctx.session`` is not offered; the guide for those who come from Edda has the list.
"""

from . import activity as _activity_module, workflow as _workflow_module  # noqa: F401
from ._channels import ChannelMessage, publish, receive, send_to, subscribe, unsubscribe
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
from ._hooks import HooksBase, WorkflowHooks
from ._outbox import OutboxRelayer, send_event, send_event_transactional
from ._wsgi import create_wsgi_app

wait_timer, wait_until = sleep, sleep_until

__all__ = [
    "ChannelMessage",
    "EddaApp",
    "EventTimeoutError",
    "HooksBase",
    "OutboxRelayer",
    "ReceivedEvent",
    "RetryExhaustedError",
    "RetryPolicy",
    "TerminalError",
    "WorkflowCancelledException",
    "WorkflowContext",
    "WorkflowHooks",
    "activity",
    "compensation",
    "create_wsgi_app",
    "on_failure",
    "publish",
    "receive",
    "recur",
    "register_compensation",
    "send_event",
    "send_event_transactional",
    "send_to",
    "sleep",
    "sleep_until",
    "subscribe",
    "unsubscribe",
    "wait_event",
    "wait_timer",
    "wait_until",
    "workflow",
]
