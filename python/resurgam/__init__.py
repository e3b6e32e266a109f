"""Durable workflows and retried activities, in the process and on plain asyncio.

::

    from resurgam import App, activity, workflow

    @activity
    async def greet(name: str) -> str:
        return f"hello {name}"

    @workflow
    async def welcome(name: str) -> str:
        return await greet(name)

    async with App("app.db") as app:
        print(await app.run("welcome-ada", welcome, "Ada"))

``App`` works on a SQLite file or on PostgreSQL, ``TestApp`` in virtual time.
"""

from . import _interpreter  # first: it says where the extension cannot be loaded
from ._app import App, Instance, TestApp
from ._context import (
    ActivityContext,
    WorkflowContext,
    compensate,
    continue_as_new,
    current,
    now,
    random,
    set_status,
    signal,
    uuid4,
    version,
)
from ._define import Activity, BadInput, BadOutput, Bound, Workflow, activity, workflow
from ._failures import (
    ActivityError,
    AlreadyClosed,
    AlreadyExists,
    Blocked,
    Cancelled,
    InvalidRequest,
    NotDurable,
    NotFound,
    NotInWorkflow,
    ResurgamError,
    RetryAfter,
    Snooze,
    TerminalError,
    Terminated,
    TimedOut,
    failure_of,
)
from ._look import Attempt, Description, InstanceInfo, Node, PendingCall
from ._operate import Acted, Call, Schedule, ScheduleInfo
from ._operations import (
    Action,
    Bulk,
    Calls,
    DeadLetter,
    DeadLetters,
    GateStatus,
    Hold,
    PausedCall,
    PolicyOverride,
    Preview,
    Runs,
)
from ._retry import RetryPolicy
from ._tables import Database, DatabaseError

__all__ = [
    "Acted",
    "Action",
    "Activity",
    "ActivityContext",
    "ActivityError",
    "AlreadyClosed",
    "AlreadyExists",
    "App",
    "Attempt",
    "BadInput",
    "BadOutput",
    "Blocked",
    "Bound",
    "Bulk",
    "Call",
    "Calls",
    "Cancelled",
    "Database",
    "DatabaseError",
    "DeadLetter",
    "DeadLetters",
    "Description",
    "GateStatus",
    "Hold",
    "Instance",
    "InstanceInfo",
    "InvalidRequest",
    "Node",
    "NotDurable",
    "NotFound",
    "NotInWorkflow",
    "PausedCall",
    "PendingCall",
    "PolicyOverride",
    "Preview",
    "ResurgamError",
    "RetryAfter",
    "RetryPolicy",
    "Runs",
    "Schedule",
    "ScheduleInfo",
    "Snooze",
    "TerminalError",
    "Terminated",
    "TestApp",
    "TimedOut",
    "Workflow",
    "WorkflowContext",
    "activity",
    "compensate",
    "continue_as_new",
    "current",
    "failure_of",
    "now",
    "random",
    "set_status",
    "signal",
    "uuid4",
    "version",
    "workflow",
]
