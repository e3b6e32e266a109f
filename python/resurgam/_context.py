"""What attempts and workflows know about themselves."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import random as _random
import uuid as _uuid
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from . import _codec
from ._failures import ActivityError, InvalidRequest, NotInWorkflow, from_record, seconds
from ._loop import ContinueAsNew, WorkflowLoop
from ._tables import Database, transact

if TYPE_CHECKING:
    from ._define import Bound

T = TypeVar("T")


def workflow_loop() -> WorkflowLoop | None:
    """The loop of the workflow whose code runs, if it is a workflow's."""
    loop = asyncio._get_running_loop()
    return loop if isinstance(loop, WorkflowLoop) else None


def _utc(time: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(time, dt.timezone.utc)


class ActivityContext:
    """What an attempt knows about itself. It is passed to activities whose first parameter is
    annotated with this class::

        @activity
        async def charge(ctx: ActivityContext, order: Order) -> Receipt:
            return await gateway.charge(order, idempotency_key=ctx.idempotency_key)
    """

    __slots__ = ("_native", "_app")

    def __init__(self, native: Any, app: Any):
        self._native, self._app = native, app

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1, counting everything that began."""
        return int(self._native.attempt)

    @property
    def instance_id(self) -> str:
        """The id of the instance that made the call."""
        return str(self._native.instance_id)

    @property
    def activity(self) -> str:
        """The activity's name."""
        return str(self._native.activity)

    @property
    def idempotency_key(self) -> str:
        """A key that all attempts of this call share, and no other call has. Hand it to services
        that drop repeats."""
        return str(self._native.idempotency_key)

    @property
    def is_cancelled(self) -> bool:
        """True once nobody wants the attempt's result any more. An ``async def`` is told by a
        ``CancelledError``; a plain function has to look."""
        return bool(self._native.is_cancelled)

    @property
    def deadline(self) -> dt.datetime | None:
        """When a timeout cuts this attempt short, if one does."""
        time = self._native.deadline()
        return None if time is None else _utc(time)

    @property
    def fallback_of(self) -> ActivityError | None:
        """The failure of the activity in whose place this one runs (``on_exhausted``), if any."""
        text = self._native.fallback_of()
        return None if text is None else ActivityError(json.loads(text))

    def now(self) -> dt.datetime:
        """The time on the engine's clock: virtual in tests."""
        return _utc(self._native.now())

    async def sleep(self, time: float | dt.timedelta) -> None:
        """Waits on the engine's clock, in seconds: in tests it passes at once. It is not durable:
        the attempt goes on meanwhile."""
        await self._app._ask(self._native.sleep, seconds(time), port_first=True)

    async def transaction(self, work: Callable[[Database], T]) -> T:
        """Changes tables of your own in the SQLite file, and records what ``work`` returns as the
        result of the activity, in one transaction: both happen, or neither does::

            @activity
            async def transfer(ctx: ActivityContext, source: str, target: str, cents: int) -> int:
                def move(db: Database) -> int:
                    take = "UPDATE account SET cents = cents - ? WHERE name = ? AND cents >= ?"
                    if db.execute(take, (cents, source, cents)).rowcount == 0:
                        raise TerminalError(f"{source} has not got that much")
                    db.execute("UPDATE account SET cents = cents + ? WHERE name = ?", (cents, target))
                    return cents

                return await ctx.transaction(move)

        It is the last thing that an attempt does: no line after it runs. When ``work`` raises,
        nothing was written, and the exception comes back here. ``work`` may run more than once, on
        the thread that writes to the file; everybody waits for it, so it waits for nobody. It is for
        an ``async def``, and not for PostgreSQL.
        """
        if self._app is None:
            raise InvalidRequest("ctx.transaction(..) is for activities that are an async def")
        if self._app._is_postgres:
            raise InvalidRequest("ctx.transaction(..) is for tables in a SQLite file")
        made = self._app._ask(self._native.transaction, partial(transact, work), port_first=True)
        # It comes back only with a failure: when the result is recorded, the attempt is over.
        raise AssertionError(f"the attempt is over: {await made}")

    def heartbeat(self, details: Any = None) -> None:
        """Says that the attempt is alive, and how far it has come. Cheap: call it as often as there
        is something to tell. The next attempt finds the details in :meth:`last_heartbeat`.

        Raises ``asyncio.CancelledError`` when the attempt is to end.
        """
        told = self._native.heartbeat(_codec.encode(details))
        if told is not None:
            failure = json.loads(told)
            if failure.get("kind") == "cancelled":
                raise asyncio.CancelledError(failure.get("message", ""))
            raise from_record(failure)

    @overload
    def last_heartbeat(self) -> Any: ...
    @overload
    def last_heartbeat(self, type: type[T]) -> T | None: ...
    def last_heartbeat(self, type: Any = Any) -> Any:
        """What an attempt before this one reported last; ``None`` for the first."""
        text = self._native.last_heartbeat()
        return None if text is None else _codec.decoder(type)(text)


class _RunLog(logging.LoggerAdapter[logging.Logger]):
    def isEnabledFor(self, level: int) -> bool:
        loop = workflow_loop()
        is_replaying = loop is not None and bool(loop.run.is_replaying)
        return not is_replaying and super().isEnabledFor(level)


class WorkflowContext:
    """The run of a workflow: what asyncio has no words for.

    It is passed to workflows whose first parameter is annotated with this class, and
    :func:`current` finds it anywhere in a workflow. Most of it is there as functions, too.
    """

    __slots__ = ("_loop",)

    def __init__(self, loop: WorkflowLoop):
        self._loop = loop

    @property
    def instance_id(self) -> str:
        """The id of the instance."""
        return str(self._loop.run.instance_id)

    @property
    def run(self) -> int:
        """Which run of the instance this is, from 1: it has several when it continues as new."""
        return int(self._loop.run.number)

    @property
    def is_replaying(self) -> bool:
        """True while the code goes again through what has happened before."""
        return bool(self._loop.run.is_replaying)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """The logger of the workflow's module, which is silent while the code goes again through
        what has happened before. Records have the attributes ``instance`` and ``workflow``."""
        made = logging.getLogger(self._loop.workflow.fn.__module__)
        return _RunLog(made, {"instance": self.instance_id, "workflow": self._loop.run.workflow})

    @property
    def cancel_requested(self) -> str | None:
        """Why the instance is to end, once somebody has asked for that."""
        return self._loop.cancelled

    def now(self) -> dt.datetime:
        """The time of what the code has heard of last; the same whenever it is replayed."""
        return _utc(self._loop.time())

    def random(self) -> float:
        """A random number from 0 to 1, the same whenever the code is replayed."""
        return float((self._loop.run.random() >> 11) / (1 << 53))

    def rng(self) -> _random.Random:
        """A generator of random numbers, seeded so that it gives the same whenever the code is
        replayed."""
        return _random.Random(self._loop.run.random())

    def uuid4(self) -> _uuid.UUID:
        """A random UUID, the same whenever the code is replayed."""
        number = (self._loop.run.random() << 64) | self._loop.run.random()
        return _uuid.UUID(int=number, version=4)

    def version(self, change: str, newest: int) -> int:
        """Which version of a change this run has. A run that came by here before the change was
        made has 1; every other one has the newest, and stays with it."""
        return int(self._loop.run.version(change, newest))

    @overload
    async def signal(self, name: str) -> Any: ...
    @overload
    async def signal(self, name: str, type: type[T]) -> T: ...
    async def signal(self, name: str, type: Any = Any) -> Any:
        """Waits for the next signal of this name."""
        return await self._loop.wait(self._loop.run.signal(name), _codec.decoder(type))

    def set_status(self, value: Any) -> None:
        """Tells the world where the instance is: see ``Instance.status()``."""
        self._loop.run.set_status(_codec.encode(value))

    @overload
    def get(self, key: str) -> Any: ...
    @overload
    def get(self, key: str, type: type[T]) -> T | None: ...
    def get(self, key: str, type: Any = Any) -> Any:
        """An entry of the instance's own data, which outlives its runs; ``None`` where there is
        none."""
        text = self._loop.run.get(key)
        return None if text is None else _codec.decoder(type)(text)

    def set(self, key: str, value: Any) -> None:
        """Changes an entry of the instance's own data."""
        self._loop.run.set(key, _codec.encode(value))

    def compensate(self, undo: Bound) -> None:
        """Remembers what undoes the work so far: when the run fails or is cancelled, it is called,
        last first. For what undoes one call, see the option ``compensate`` of activities."""
        self._loop.run.compensate(undo.name, undo.input, undo.options)

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Ends this run and begins the next one of the instance with these arguments and an empty
        history."""
        raise ContinueAsNew(self._loop.workflow.pack(args, kwargs))


def current() -> WorkflowContext:
    """The run whose code this is."""
    loop = workflow_loop()
    if loop is None:
        raise NotInWorkflow("this works in the code of a workflow only")
    return WorkflowContext(loop)


@overload
def signal(name: str) -> Coroutine[Any, Any, Any]: ...
@overload
def signal(name: str, type: type[T]) -> Coroutine[Any, Any, T]: ...
def signal(name: str, type: Any = Any) -> Any:
    """Waits for the next signal of this name that is sent to the instance::

        async with asyncio.timeout(86400):
            approval = await signal("approve", Approval)
    """
    return current().signal(name, type)


def now() -> dt.datetime:
    """The time, the same whenever the workflow is replayed. Instead of ``datetime.now()``."""
    return current().now()


def random() -> float:
    """A random number from 0 to 1. Instead of ``random.random()``; see
    :meth:`WorkflowContext.rng` for more."""
    return current().random()


def uuid4() -> _uuid.UUID:
    """A random UUID. Instead of ``uuid.uuid4()``."""
    return current().uuid4()


def version(change: str, newest: int) -> int:
    """Which version of a change this run has; see :meth:`WorkflowContext.version`."""
    return current().version(change, newest)


def set_status(value: Any) -> None:
    """Tells the world where the instance is."""
    current().set_status(value)


def compensate(undo: Bound) -> None:
    """Remembers what undoes the work so far; see :meth:`WorkflowContext.compensate`."""
    current().compensate(undo)


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """Ends this run and begins the next one; see :meth:`WorkflowContext.continue_as_new`."""
    current().continue_as_new(*args, **kwargs)
