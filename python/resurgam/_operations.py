"""What operators do to gates, kinds of calls and many calls at once, as methods of an app."""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from ._failures import ActivityError, InvalidRequest, seconds
from ._look import _failure, _time
from ._operate import Acted
from ._retry import RetryPolicy, policy_json

Seconds = float | dt.timedelta
GateSettings = Mapping[str, Any]


def _millis(time: dt.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


@dataclasses.dataclass(frozen=True)
class GateStatus:
    """A gate, and what waits behind it."""

    key: str
    #: ``open``, ``shut``, ``probing``, ...
    standing: str
    #: How it stands, since when, why, and what comes next.
    text: str
    #: What operators have stored of settings, and who did.
    settings: dict[str, Any] | None
    settings_by: str | None
    #: How many calls are due and wait.
    due: int
    first_due: dt.datetime | None

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "first_due": _time(row["first_due"])})


@dataclasses.dataclass(frozen=True)
class Hold:
    """An activity or a queue that is paused."""

    #: ``activity`` or ``queue``.
    kind: str
    name: str
    by: str
    reason: str | None
    since: dt.datetime

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "since": _time(row["since"])})


@dataclasses.dataclass(frozen=True)
class PolicyOverride:
    """A policy that an operator has set for all calls of an activity."""

    activity: str
    policy: dict[str, Any]
    by: str
    reason: str | None


@dataclasses.dataclass(frozen=True)
class DeadLetter:
    """A call that was given up, kept for somebody to decide about."""

    #: Which call it is.
    call: str
    instance: str
    workflow: str
    activity: str
    queue: str
    #: Its arguments, as JSON.
    input: Any
    failure: ActivityError
    #: Why retrying stopped.
    why: str
    attempts: int
    at: dt.datetime
    #: What it has in common with others that failed in the same way, also in words.
    fingerprint: str
    error: str
    #: ``open``, ``redriven`` or ``discarded``.
    state: str

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "at": _time(row["at"]), "failure": _failure(row["failure"])})


@dataclasses.dataclass(frozen=True)
class PausedCall:
    """A call that waits for an operator."""

    instance: str
    workflow: str
    activity: str
    #: Its place in the history.
    seq: int
    since: dt.datetime
    by: str | None
    reason: str | None

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "since": _time(row["since"])})


@dataclasses.dataclass(frozen=True)
class Action:
    """Something that an operator did."""

    action: str
    by: str
    reason: str | None
    at: dt.datetime
    #: The call that it was done to; ``None`` for the run.
    seq: int | None
    #: What came of it.
    answer: str

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "at": _time(row["at"])})


@dataclasses.dataclass(frozen=True)
class Bulk:
    """What came of an action on everything that matches."""

    id: str
    state: str
    #: How many matched, how many of them changed, and how many did not.
    matched: int
    changed: int
    refused: int
    #: Why it ended before it was done.
    error: str | None


@dataclasses.dataclass(frozen=True)
class Preview:
    """What an action would be done to."""

    matched: int
    #: The instances of the first of them.
    instances: list[str]


class _Many:
    """Everything that matches a filter."""

    _target = ""

    def __init__(self, app: _Operations, filter: dict[str, Any]):
        self._app, self._filter = app, filter

    async def preview(self) -> Preview:
        """What an action would be done to: nothing is changed."""
        told = await self._do(self._probe, dry_run=True)
        return Preview(**told)

    _probe = ""

    async def _act(self, action: str, **given: Any) -> Bulk:
        return Bulk(**await self._do(action, **given))

    async def _do(self, action: str, **given: Any) -> Any:
        for name in ("spread",):
            if given.get(name) is not None:
                given[name] = seconds(given[name])
        wanted = {name: value for name, value in given.items() if value is not None}
        return await self._app._operate(
            "bulk", target=self._target, action=action, filter=self._filter,
            request_id=f"python-{uuid.uuid4().hex}", **wanted,
        )


class Calls(_Many):
    """Open activity calls that match a filter: ``app.calls(activity=charge)``.

    ``limit`` bounds how many are asked for, and ``spread`` is the time over which they are, in
    seconds. Each method waits until the job is over.
    """

    _target, _probe = "calls", "pause"

    async def retry(
        self, *, reset: bool = False, limit: int | None = None, spread: Seconds | None = None,
        by: str | None = None, reason: str | None = None,
    ) -> Bulk:
        """Has the next attempts begin now; with ``reset``, failures are counted from 0 again."""
        return await self._act(
            "retry", reset=reset, limit=limit, spread=spread, by=by, reason=reason
        )

    async def pause(
        self, *, limit: int | None = None, by: str | None = None, reason: str | None = None
    ) -> Bulk:
        """Has no attempt begin until somebody resumes the calls."""
        return await self._act("pause", limit=limit, by=by, reason=reason)

    async def resume(
        self, *, reset: bool = False, limit: int | None = None, spread: Seconds | None = None,
        by: str | None = None, reason: str | None = None,
    ) -> Bulk:
        """Lets paused calls go on."""
        return await self._act(
            "resume", reset=reset, limit=limit, spread=spread, by=by, reason=reason
        )

    async def fail(
        self, message: str, *, limit: int | None = None, by: str | None = None,
        reason: str | None = None,
    ) -> Bulk:
        """Ends the calls with a failure."""
        return await self._act("fail", message=message, limit=limit, by=by, reason=reason)

    async def set_policy(
        self, policy: RetryPolicy | Mapping[str, Any], *, limit: int | None = None,
        by: str | None = None, reason: str | None = None,
    ) -> Bulk:
        """Has another policy decide about the calls from now on."""
        return await self._act(
            "set_policy", policy=policy_json(policy), limit=limit, by=by, reason=reason
        )


class Runs(_Many):
    """Runs that match a filter: ``app.runs(workflow=fulfil, status="failed")``."""

    _target, _probe = "runs", "restart"

    async def pause(
        self, *, limit: int | None = None, by: str | None = None, reason: str | None = None
    ) -> Bulk:
        """Has the runs take no turn until somebody resumes them."""
        return await self._act("pause", limit=limit, by=by, reason=reason)

    async def resume(
        self, *, limit: int | None = None, by: str | None = None, reason: str | None = None
    ) -> Bulk:
        """Lets paused runs go on."""
        return await self._act("resume", limit=limit, by=by, reason=reason)

    async def restart(
        self, *, limit: int | None = None, spread: Seconds | None = None, by: str | None = None,
        reason: str | None = None,
    ) -> Bulk:
        """Begins closed instances again, with their input and their options."""
        return await self._act("restart", limit=limit, spread=spread, by=by, reason=reason)

    async def reset(
        self, *, limit: int | None = None, spread: Seconds | None = None, by: str | None = None,
        reason: str | None = None,
    ) -> Bulk:
        """Begins next runs with what was done before the last failure."""
        return await self._act("reset", limit=limit, spread=spread, by=by, reason=reason)


class DeadLetters(_Many):
    """Dead letters that match a filter: ``app.letters(activity=charge)``."""

    _target, _probe = "letters", "redrive"

    async def redrive(
        self, *, limit: int | None = None, spread: Seconds | None = None, by: str | None = None,
        reason: str | None = None,
    ) -> Bulk:
        """Has the calls made again."""
        return await self._act("redrive", limit=limit, spread=spread, by=by, reason=reason)

    async def discard(
        self, *, limit: int | None = None, by: str | None = None, reason: str | None = None
    ) -> Bulk:
        """Notes that nothing is to be done about them."""
        return await self._act("discard", limit=limit, by=by, reason=reason)


def _name(of: Any) -> str | None:
    return of if of is None or isinstance(of, str) else str(of.name)


class _Operations:
    """The methods of apps that are for operators."""

    _engine: Any

    def _ask(self, method: Any, *args: Any, port_first: bool = False) -> Any:
        raise NotImplementedError

    async def _operate(self, do: str, **given: Any) -> Any:
        wanted = {name: value for name, value in given.items() if value is not None}
        text = await self._ask(self._engine.operate, json.dumps({"do": do, **wanted}))
        return None if text is None else json.loads(text)

    async def _gate(
        self, change: str, key: str, by: str | None, reason: str | None, **given: Any
    ) -> Acted:
        if given.get("lasting") is not None:
            given["lasting"] = seconds(given["lasting"])
        told = await self._operate("gate", change=change, key=key, by=by, reason=reason, **given)
        return Acted(**told)

    async def shut_gate(
        self, key: str, *, lasting: Seconds | None = None, by: str | None = None,
        reason: str | None = None,
    ) -> Acted:
        """Has no call behind a gate begin, for so many seconds or until somebody opens it."""
        return await self._gate("shut", key, by, reason, lasting=lasting)

    async def open_gate(
        self, key: str, *, lasting: Seconds | None = None, by: str | None = None,
        reason: str | None = None,
    ) -> Acted:
        """Has calls behind a gate begin whatever becomes of them."""
        return await self._gate("open", key, by, reason, lasting=lasting)

    async def auto_gate(
        self, key: str, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has a gate decide by itself again."""
        return await self._gate("auto", key, by, reason)

    async def set_gate(
        self, key: str, settings: GateSettings, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Stores settings of a gate, or with ``PREFIX*`` of all whose keys begin so. They come before
        those in the code."""
        return await self._gate("set", key, by, reason, settings=dict(settings))

    async def unset_gate(
        self, key: str, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has a gate follow its settings in the code again."""
        return await self._gate("set", key, by, reason)

    async def gates(self) -> builtins.list[GateStatus]:
        """The gates of which anything is stored."""
        return [GateStatus._of(row) for row in await self._operate("gates") or ()]

    async def pause_activity(
        self, activity: Any, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has no attempt of an activity begin, in any instance, until somebody resumes it."""
        return await self._gate("pause_activity", str(_name(activity)), by, reason)

    async def resume_activity(
        self, activity: Any, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Lets a paused activity go on."""
        return await self._gate("resume_activity", str(_name(activity)), by, reason)

    async def pause_queue(
        self, queue: str, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has no attempt of a queue begin until somebody resumes it."""
        return await self._gate("pause_queue", queue, by, reason)

    async def resume_queue(
        self, queue: str, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Lets a paused queue go on."""
        return await self._gate("resume_queue", queue, by, reason)

    async def holds(self) -> builtins.list[Hold]:
        """The activities and queues that are paused."""
        return [Hold._of(row) for row in await self._operate("holds") or ()]

    async def set_policy(
        self, activity: Any, policy: RetryPolicy | Mapping[str, Any], *, by: str | None = None,
        reason: str | None = None,
    ) -> Acted:
        """Has another policy decide about all calls of an activity, also about those that wait."""
        given = {"activity": _name(activity), "policy": policy_json(policy)}
        return Acted(**await self._operate("policy", **given, by=by, reason=reason))

    async def unset_policy(
        self, activity: Any, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has the calls' own policies decide again."""
        told = await self._operate("policy", activity=_name(activity), by=by, reason=reason)
        return Acted(**told)

    async def policies(self) -> builtins.list[PolicyOverride]:
        """The policies that operators have set."""
        return [PolicyOverride(**row) for row in await self._operate("policies") or ()]

    def calls(
        self, *, ids: Sequence[str] = (), workflow: Any = None, activity: Any = None,
        status: Literal["waiting", "retrying", "running", "paused"] | None = None,
        failure_type: str | None = None, failure_code: str | None = None,
        tag: tuple[str, str] | None = None, queue: str | None = None,
        started_since: dt.datetime | None = None, failed_since: dt.datetime | None = None,
    ) -> Calls:
        """Open activity calls, to act on all of them. Every argument narrows it further."""
        filter = {
            "ids": list(ids), "workflow": _name(workflow), "activity": _name(activity),
            "status": status, "failure_type": failure_type, "failure_code": failure_code,
            "tag": tag, "queue": queue, "started_since": _millis(started_since),
            "failed_since": _millis(failed_since),
        }
        return Calls(self, {k: v for k, v in filter.items() if v is not None})

    def runs(
        self, *, ids: Sequence[str] = (), workflow: Any = None, activity: Any = None,
        status: str | Sequence[str] = (), failure_type: str | None = None,
        failure_code: str | None = None, retrying: bool = False,
        tag: tuple[str, str] | None = None, queue: str | None = None,
        started_since: dt.datetime | None = None,
    ) -> Runs:
        """Runs, to act on all of them. Every argument narrows it further."""
        filter = {
            "ids": list(ids), "workflow": _name(workflow), "activity": _name(activity),
            "status": [status] if isinstance(status, str) else list(status),
            "failure_type": failure_type, "failure_code": failure_code, "retrying": retrying,
            "tag": tag, "queue": queue, "started_since": _millis(started_since),
        }
        return Runs(self, {k: v for k, v in filter.items() if v is not None})

    def letters(
        self, *, activity: Any = None, fingerprint: str | None = None,
        since: dt.datetime | None = None,
    ) -> DeadLetters:
        """Open dead letters, to act on all of them."""
        filter = {
            "activity": _name(activity), "fingerprint": fingerprint, "since": _millis(since),
        }
        return DeadLetters(self, {k: v for k, v in filter.items() if v is not None})

    async def dead_letters(
        self, *, state: Literal["open", "redriven", "discarded"] = "open", activity: Any = None,
        fingerprint: str | None = None, since: dt.datetime | None = None, limit: int = 100,
    ) -> builtins.list[DeadLetter]:
        """Calls that were given up by a policy with ``on_exhausted`` "dead_letter"."""
        rows = await self._operate(
            "dead_letters", state=state, activity=_name(activity), fingerprint=fingerprint,
            since=_millis(since), limit=limit,
        )
        return [DeadLetter._of(row) for row in rows or ()]

    async def redrive(
        self, letter: DeadLetter, *, as_new: bool = False, by: str | None = None,
        reason: str | None = None,
    ) -> Acted:
        """Has the call of a dead letter made again: in its run, which goes on from there, or with
        ``as_new`` by itself."""
        return await self._letter("redrive", letter, as_new=as_new, by=by, reason=reason)

    async def discard(
        self, letter: DeadLetter, *, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Notes that nothing is to be done about a dead letter."""
        return await self._letter("discard", letter, by=by, reason=reason)

    async def _letter(self, action: str, letter: DeadLetter, **given: Any) -> Acted:
        if not isinstance(letter, DeadLetter):
            raise InvalidRequest(f"{letter!r:.60} is no dead letter; see app.dead_letters()")
        id = f"python-{uuid.uuid4().hex}"
        told = await self._operate(
            "letter", action=action, call=letter.call, request_id=id, **given
        )
        return Acted(**told)

    async def paused_calls(
        self, *, activity: Any = None, fingerprint: str | None = None,
        since: dt.datetime | None = None, limit: int = 100,
    ) -> builtins.list[PausedCall]:
        """Calls that wait for an operator, those first that have waited longest."""
        rows = await self._operate(
            "paused_calls", activity=_name(activity), fingerprint=fingerprint,
            since=_millis(since), limit=limit,
        )
        return [PausedCall._of(row) for row in rows or ()]

    async def actions(self, id: str) -> builtins.list[Action]:
        """What operators did to the current run of an instance."""
        return [Action._of(row) for row in await self._operate("actions", id=id) or ()]

    async def export_history(self, id: str) -> str | None:
        """The history of all runs of an instance as JSON lines, which ``resurgam replay`` reads;
        ``None`` when there is no such instance."""
        text: str | None = await self._operate("export", id=id)
        return text


__all__ = [
    "Action", "Bulk", "Calls", "DeadLetter", "DeadLetters", "GateStatus", "Hold", "PausedCall",
    "PolicyOverride", "Preview", "Runs",
]
