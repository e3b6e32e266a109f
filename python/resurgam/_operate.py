"""Schedules, and what operators do to calls and runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from . import _codec
from ._look import _time
from ._retry import RetryPolicy, _time as _duration, policy_json

if TYPE_CHECKING:
    from ._app import _Base


@dataclasses.dataclass(frozen=True)
class Schedule:
    """When a workflow is started by the clock::

        Schedule(cron="0 3 * * *", zone="Europe/Berlin")
        Schedule(every=300, overlap="allow")

    ``overlap`` says what becomes of a firing while the last instance is open: it is left out
    (``skip``), waits (``buffer_one``), or starts beside it (``allow``). Firings that were missed for
    longer than ``catch_up``, a minute unless set, are left out and counted.
    """

    cron: str | None = None
    every: float | dt.timedelta | str | None = None
    zone: str | None = None
    overlap: Literal["skip", "buffer_one", "allow"] = "skip"
    catch_up: float | dt.timedelta | str | None = None
    jitter: float | dt.timedelta | str | None = None
    paused: bool = False
    #: It fires from this time on, and until that one.
    not_before: dt.datetime | None = None
    not_after: dt.datetime | None = None

    def _json(self, id: str) -> str:
        made: dict[str, Any] = {"id": id, "overlap": self.overlap, "paused": self.paused}
        for name in ("cron", "zone"):
            if getattr(self, name) is not None:
                made[name] = getattr(self, name)
        for name in ("every", "catch_up", "jitter"):
            if getattr(self, name) is not None:
                made[name] = _duration(getattr(self, name))
        for name in ("not_before", "not_after"):
            time = getattr(self, name)
            if time is not None:
                made[name] = time.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")
        return json.dumps(made)


@dataclasses.dataclass(frozen=True)
class ScheduleInfo:
    """A schedule, and what it has done."""

    id: str
    workflow: str
    paused: bool
    #: Why it does not fire.
    error: str | None
    #: The next times at which it fires.
    next: list[dt.datetime]
    #: The id of the instance that it started last, and whether that is open.
    last: str | None
    last_open: bool
    #: How many instances it has started, and how many firings were missed or left out.
    started: int
    missed: int
    skipped: int

    @classmethod
    def _of(cls, row: dict[str, Any]) -> ScheduleInfo:
        return cls(**{**row, "next": [_time(time) for time in row["next"]]})


@dataclasses.dataclass(frozen=True)
class Acted:
    """What came of an action: whether it changed anything, and what, or why not."""

    changed: bool
    text: str


async def act(app: _Base, id: str, action: str, **given: Any) -> Acted:
    """Does something to a run, or to a call of it."""
    wanted = {name: value for name, value in given.items() if value is not None}
    wanted.update(action=action, request_id=f"python-{uuid.uuid4().hex}")
    text = await app._ask(app._engine.act, id, json.dumps(wanted))
    return Acted(**json.loads(text))


class Call:
    """An activity call of an instance, for operators: ``app.call("order-42", "charge#6")``.

    Who did what, when and why is kept with the instance and printed in its history.
    """

    __slots__ = ("_app", "_id", "_call")

    def __init__(self, app: _Base, id: str, call: str):
        self._app, self._id, self._call = app, id, call

    async def _act(self, action: str, **given: Any) -> Acted:
        return await act(self._app, self._id, action, call=self._call, **given)

    async def retry(
        self, *, reset: bool = False, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has the next attempt begin now; with ``reset``, failures are counted from 0 again, and the
        time of the call begins again."""
        return await self._act("retry", reset=reset, by=by, reason=reason)

    async def pause(
        self, *, clock_runs: bool = False, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has no attempt begin until somebody resumes the call. Its timeouts stand still meanwhile,
        unless ``clock_runs``."""
        return await self._act("pause", clock_runs=clock_runs, by=by, reason=reason)

    async def resume(
        self, *, reset: bool = False, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Lets a paused call go on."""
        return await self._act("resume", reset=reset, by=by, reason=reason)

    async def complete(
        self, value: Any, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Ends the call with a value, as if the activity had returned it."""
        plain = json.loads(_codec.encode(value))
        return await self._act("complete", value=plain, by=by, reason=reason)

    async def fail(
        self, message: str, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Ends the call with a failure."""
        return await self._act("fail", message=message, by=by, reason=reason)

    async def set_policy(
        self,
        policy: RetryPolicy | Mapping[str, Any],
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> Acted:
        """Has another policy decide about this call from now on."""
        return await self._act("set_policy", policy=policy_json(policy), by=by, reason=reason)
