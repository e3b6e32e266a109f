"""What is stored about instances, to look at."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, Self

from ._advice import advised
from ._define import WORKFLOWS
from ._failures import ActivityError


def _time(seconds: float | None) -> dt.datetime | None:
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.timezone.utc)


def _failure(record: dict[str, Any] | None) -> ActivityError | None:
    return None if record is None else ActivityError(record)


@dataclasses.dataclass(frozen=True)
class InstanceInfo:
    """An instance, as it is listed."""

    id: str
    workflow: str
    #: ``running``, ``blocked``, ``paused``, ``completed``, ``failed``, ``cancelled``, ``terminated``.
    status: str
    #: Which run of the instance is the current one.
    run: int
    queue: str
    priority: int
    tags: dict[str, str]
    #: The schedule that has started it.
    schedule: str | None
    #: Its arguments, as JSON.
    input: Any
    #: The result or the failure, as JSON, when it is closed.
    outcome: Any
    #: Why it is blocked.
    error: str | None
    created_at: dt.datetime
    closed_at: dt.datetime | None
    #: Its place in a list, see ``after`` of ``App.list``.
    cursor: str

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        names = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in row.items() if name in names}
        values["created_at"] = _time(values["created_at"])
        values["closed_at"] = _time(values["closed_at"])
        known = [made for (name, _), made in WORKFLOWS.items() if name == values["workflow"]]
        values["error"] = advised(values["error"], known[-1].fn if known else None)
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class PendingCall:
    """An activity call that has not ended."""

    activity: str
    #: Its place in the history.
    seq: int
    queue: str
    #: The attempt that runs, or ran last; 0 before the first.
    attempt: int
    running: bool
    #: When the next attempt is due.
    next_due: dt.datetime | None
    #: Why no attempt runs: ``backoff``, ``slot``, ...
    waits_for: str | None
    paused: bool
    #: The key of its gate.
    gate: str
    #: What holds it back while it waits for its gate, or for an operator.
    held_by: str | None
    #: What went wrong last.
    last_failure: ActivityError | None


@dataclasses.dataclass(frozen=True)
class Description(InstanceInfo):
    """An instance, and what it waits for."""

    #: Its activity calls that have not ended.
    pending: list[PendingCall] = dataclasses.field(default_factory=list)
    #: The names of signals that it has not read.
    unread: list[str] = dataclasses.field(default_factory=list)
    #: When its timers fire.
    timers: list[dt.datetime] = dataclasses.field(default_factory=list)
    #: Somebody has asked it to end.
    cancel_requested: bool = False

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        row = dict(row)
        row["timers"] = [_time(time) for time in row["timers"]]
        row["pending"] = [
            PendingCall(
                **{
                    **call,
                    "next_due": _time(call["next_due"]),
                    "last_failure": _failure(call["last_failure"]),
                }
            )
            for call in row["pending"]
        ]
        return super()._of(row)


@dataclasses.dataclass(frozen=True)
class Node:
    """A process that works on the database."""

    id: str
    pid: int
    program: str
    since: dt.datetime

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "since": _time(row["since"])})


@dataclasses.dataclass(frozen=True)
class Attempt:
    """An attempt that did not succeed at once."""

    activity: str
    #: The place of the call in the history.
    seq: int
    #: Which attempt, from 1.
    attempt: int
    #: How it ended: ``failed``, ``timed_out``, ``lost``, ``snoozed``, ...
    outcome: str
    started_at: dt.datetime
    ended_at: dt.datetime
    #: What went wrong.
    failure: ActivityError | None
    #: How many seconds later the next attempt was due, when there was one.
    delay: float | None
    #: How that was decided, in words.
    why: str

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        times = {name: _time(row[name]) for name in ("started_at", "ended_at")}
        return cls(**{**row, **times, "failure": _failure(row["failure"])})
