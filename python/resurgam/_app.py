"""Apps: workflows and activities at work on a database, and their instances."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import concurrent.futures
import contextvars
import datetime as dt
import functools
import itertools
import json
import logging
import os
import sys
import threading
import traceback
import uuid
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, overload

from . import _codec, _native
from ._context import workflow_loop
from ._define import ACTIVITIES, WORKFLOWS, Activity, Retry, Seconds, Workflow
from ._failures import Blocked, InvalidRequest, NotFound, ResurgamError, answer_error, note_packages, seconds
from ._fork import after_fork, refuse_inherited
from ._instance import Instance
from ._look import Attempt, Description, InstanceInfo, Node
from ._operate import Call, Schedule, ScheduleInfo
from ._operations import GateSettings, _millis, _Operations
from ._retry import policy_json
from ._tables import Database, transact

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

log = logging.getLogger("resurgam")

# A turn that takes longer than this is told of.
_LONG_TURN = 1.0

_open: weakref.WeakSet[_Base] = weakref.WeakSet()


class _Base(_Operations):
    """What apps at work and apps under test have in common."""

    _native: Any
    _is_test = False

    def __init__(
        self,
        *,
        workflows: Iterable[Workflow[..., Any]] | None = None,
        activities: Iterable[Activity[..., Any]] | None = None,
        retry: Retry | None = None,
        slots: int | None = None,
        queues: Sequence[str] | None = None,
        queue_slots: Mapping[str, int] | None = None,
        hot_runs: int | None = None,
        grace: Seconds | None = None,
        retention: Seconds | None = None,
        gates: Mapping[str, GateSettings] | None = None,
        setup: str | None = None,
        max_history: int | None = None,
        max_payload: int | None = None,
        debug: bool = False,
    ):
        self._given = (workflows, activities)
        self._settings: dict[str, Any] = {
            "retry": None if retry is None else policy_json(retry),
            "slots": slots,
            "queues": None if queues is None else list(queues),
            "queue_slots": None if queue_slots is None else dict(queue_slots),
            "hot_runs": hot_runs,
            "grace": None if grace is None else seconds(grace),
            "retention": None if retention is None else seconds(retention),
            "gates": None if gates is None else {key: dict(it) for key, it in gates.items()},
            "setup": setup,
            "max_history": max_history,
            "max_payload": max_payload,
            "attempt_timeouts": False if debug else None,
        }
        self._native = None
        self._pid = 0
        self._tokens = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._attempts: dict[int, asyncio.Task[None]] = {}
        self._activities: list[Activity[..., Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._watch: asyncio.TimerHandle | None = None

    # Opening and closing.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def open(self) -> None:
        """Begins to work. ``async with`` does it, and stops at the end."""
        if self._native is not None:
            raise ResurgamError("the app is open already")
        note_packages()
        self._loop = asyncio.get_running_loop()
        self._port = _native.Port()
        self._turns = _native.Turns()
        builder = self._builder()
        self._thread = threading.Thread(
            target=contextvars.Context().run,
            args=(self._turns.run,),
            name="resurgam-turns",
            daemon=True,
        )
        self._thread.start()
        try:
            self._native = await asyncio.to_thread(self._begin, builder)
        except RuntimeError as error:
            self._end_turns()
            raise answer_error(str(error)) from None
        except BaseException:
            self._end_turns()
            raise
        self._pid = os.getpid()
        self._loop.add_reader(self._port.fileno(), self._news)
        self._watch = self._loop.call_later(_LONG_TURN, self._watch_turns)
        _open.add(self)

    def _begin(self, builder: Any) -> Any:
        raise NotImplementedError

    def _file(self) -> str | None:
        """The SQLite file that the app works on, if it does."""
        return None

    @property
    def _is_postgres(self) -> bool:
        return False

    def _builder(self) -> Any:
        workflows, activities = self._given
        known = list(WORKFLOWS.values()) if workflows is None else list(workflows)
        self._activities = list(ACTIVITIES.values()) if activities is None else list(activities)
        builder = _native.Builder(self._port, self._turns, log.getEffectiveLevel())
        for place, made in enumerate(self._activities):
            if not isinstance(made, Activity):
                raise TypeError(f"activities: {made!r} is none; put @activity on it")
            made._resolve()
            options = {**made.defaults, **made._options}
            made._register(builder, place, json.dumps(options))
        if "resurgam.exosphere" in sys.modules:
            builder.graphs()
        for workflow in known:
            if not isinstance(workflow, Workflow):
                raise TypeError(f"workflows: {workflow!r} is none; put @workflow on it")
            workflow._resolve()
            builder.workflow(workflow.name, workflow.version, workflow.make)
        for name, value in self._settings.items():
            if value is not None:
                builder.set(name, json.dumps(value))
        return builder

    async def stop(self) -> None:
        """Stops: no new attempts, a grace period for those that run, then the rest is interrupted
        and recorded. ``async with`` does it."""
        if self._native is None or self._pid != os.getpid():
            return
        try:
            await self._ask(self._native.stop)
        finally:
            self._close()

    def _close(self) -> None:
        native, self._native = self._native, None
        if native is not None and not self._is_test:
            native.abandon()
        if self._watch is not None:
            self._watch.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._port.fileno())
        self._end_turns()
        for future in self._answers.values():
            if not future.done():
                future.cancel()
        self._answers.clear()
        _open.discard(self)

    def _end_turns(self) -> None:
        self._turns.end()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _watch_turns(self) -> None:
        """Tells of a turn that takes long: it holds up every other workflow."""
        assert self._loop is not None
        busy = self._turns.busy_for()
        if busy > _LONG_TURN and self._thread is not None:
            frame = sys._current_frames().get(self._thread.ident or 0)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            log.warning(
                "a turn of a workflow has taken %.1f s so far, and all others wait for it; move the "
                "work into an activity\n%s",
                busy,
                stack,
            )
        self._watch = self._loop.call_later(_LONG_TURN, self._watch_turns)

    # For scripts and notebooks: an event loop on a thread of its own.

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        self._own = threading.Thread(target=loop.run_forever, name="resurgam-loop", daemon=True)
        self._own.start()
        self._loop = loop
        try:
            self.wait(self.open())
        except BaseException:
            loop.call_soon_threadsafe(loop.stop)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop = self._loop
        assert loop is not None
        try:
            self.wait(self.stop())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            self._own.join(timeout=5)

    def wait(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """Waits, without an event loop of one's own, for anything that is awaited otherwise::

            with App("orders.db") as app:
                run = app.wait(app.start("order-42", fulfil, order))
                print(app.wait(run.result()))
        """
        loop = self._loop
        if loop is None:
            awaitable.close()
            raise ResurgamError("the app is not open: with App(...) as app")
        inside = workflow_loop()
        if inside is not None:
            awaitable.close()
            inside.refuse("an app", "await activities and children, and leave the app to others")
        if asyncio._get_running_loop() is loop:
            awaitable.close()
            raise ResurgamError(
                "this is the app's own event loop, which would wait for itself: await it here, or "
                "call this from another thread"
            )
        asked = asyncio.run_coroutine_threadsafe(awaitable, loop)
        while True:
            # In slices, so that Ctrl-C is heard.
            try:
                return asked.result(timeout=0.1)
            except concurrent.futures.TimeoutError:
                if asked.done():
                    raise
            except BaseException:
                asked.cancel()
                raise

    def run_sync(
        self, id: str | None, workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """:meth:`run`, without an event loop of one's own."""
        return self.wait(self.run(id, workflow, *args, **kwargs))

    def start_sync(
        self, id: str, workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Instance[R]:
        """:meth:`start`, without an event loop of one's own."""
        return self.wait(self.start(id, workflow, *args, **kwargs))

    # What the engine has for the event loop.

    def _news(self) -> None:
        loop = self._loop
        assert loop is not None
        for level, target, text in _native.log_lines():
            name = target.replace("resurgam_", "resurgam.").replace("::", ".")
            logging.getLogger(name).log(level, "%s", text)
        for news in self._port.drain():
            kind = news[0]
            if kind == 0:
                _, id, place, input, native = news
                attempt = self._activities[place].attempt(self, self._port, id, input, native)
                # Not in the context of whoever opened the app: the tenant of the first request
                # would be that of all.
                task = loop.create_task(attempt, context=contextvars.Context())
                self._attempts[id] = task
                task.add_done_callback(functools.partial(self._attempt_done, id))
            elif kind == 1:
                running = self._attempts.get(news[1])
                if running is not None:
                    running.cancel()
            else:
                _, token, ok, text = news
                future = self._answers.pop(token, None)
                if future is None or future.done():
                    continue
                if ok:
                    future.set_result(text)
                else:
                    future.set_exception(answer_error(text))

    def _attempt_done(self, id: int, task: asyncio.Task[None]) -> None:
        self._attempts.pop(id, None)

    def _ask(self, method: Any, *args: Any, port_first: bool = False) -> asyncio.Future[Any]:
        """Asks the engine; the answer comes through the port."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise ResurgamError(
                "the app was opened in another event loop; call "
                "asyncio.run_coroutine_threadsafe(..., loop) to ask it from here"
            )
        token = next(self._tokens)
        future = loop.create_future()
        self._answers[token] = future
        try:
            if port_first:
                method(self._port, token, *args)
            else:
                method(token, *args)
        except BaseException:
            del self._answers[token]
            raise
        return future

    async def _until_ended(self, asked: asyncio.Future[Any]) -> Any:
        """Waits for the end of an instance."""
        return await asked

    @property
    def _engine(self) -> Any:
        native = self._native
        if native is None:
            raise ResurgamError("the app is not open: async with App(...) as app")
        if self._pid != os.getpid():
            raise ResurgamError(
                "the app was opened before this process was forked: open one in the child, such as "
                "in post_fork or worker_process_init"
            )
        return native

    # Starting and asking.

    async def start(
        self, id: str, workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Instance[R]:
        """Starts an instance of a workflow. It is durable when this returns.

        Raises :class:`AlreadyExists` when the id is taken; the option ``if_exists`` has other ways.
        """
        self._check(workflow, Workflow, "start")
        input, options = workflow.pack(args, kwargs), workflow._options_text()
        await self._ask(self._engine.start, id, workflow.name, input, options, False)
        return Instance(self, id, workflow)

    async def run(
        self, id: str | None, workflow: Workflow[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Starts an instance, waits for its end, and answers with the result. Without an id it gets
        one of its own."""
        self._check(workflow, Workflow, "run")
        input, options = workflow.pack(args, kwargs), workflow._options_text()
        id = id or f"{workflow.name}-{uuid.uuid4().hex}"
        asked = self._ask(self._engine.run, id, workflow.name, input, options, False)
        text = await self._until_ended(asked)
        result: R = workflow.decode(text)
        return result

    async def submit(
        self, id: str | None, activity: Activity[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Instance[R]:
        """Runs one activity durably, with its policy and no workflow to write. It is durable when
        this returns."""
        self._check(activity, Activity, "submit")
        id = id or f"{activity.name}-{uuid.uuid4().hex}"
        known = {"retry", "queue", "total_timeout"}
        unknown = sorted(activity._options.keys() - known)
        if activity._compensate is not None:
            unknown.append("compensate")
        if unknown:
            raise InvalidRequest(
                f"submit {activity.name}: {', '.join(unknown)} cannot be set for one submission; put "
                "it on the activity, or call the activity from a workflow"
            )
        options = json.dumps(activity._options)
        input = activity.pack(args, kwargs)
        await self._ask(self._engine.start, id, activity.name, input, options, True)
        return Instance(self, id, activity)

    def _check(self, given: Any, cls: type, what: str) -> None:
        if not isinstance(given, cls):
            kind = cls.__name__.lower()
            raise TypeError(f"{what}: {given!r:.80} is no {kind}; put @{kind} on the function")

    @overload
    def instance(self, id: str) -> Instance[Any]: ...
    @overload
    def instance(self, id: str, workflow: Workflow[..., R]) -> Instance[R]: ...
    def instance(self, id: str, workflow: Any = None) -> Instance[Any]:
        """An instance that was started before. With its workflow, its result is read by annotation.
        Whether there is one turns out when it is asked something."""
        return Instance(self, id, workflow)

    async def signal(
        self, id: str, name: str, value: Any = None, *, request_id: str | None = None
    ) -> None:
        """Sends a signal to an open instance. It is durable when this returns. One that is sent
        again with the same ``request_id`` is the same signal."""
        await self._ask(self._engine.signal, id, name, _codec.encode(value), request_id)

    async def cancel(self, id: str, reason: str = "") -> None:
        """Asks an instance to end; see :meth:`Instance.cancel`."""
        await self._ask(self._engine.end, id, reason, False)

    async def terminate(self, id: str, reason: str = "") -> None:
        """Ends an instance where it stands."""
        await self._ask(self._engine.end, id, reason, True)

    async def history(self, id: str, *, run: int | None = None) -> str:
        """The history of an instance with its attempts, one line each: of its current run, or of an
        earlier one. An instance has several when it continued as new or was tried again."""
        text: str = await self._ask(self._engine.history, id, run)
        return text

    async def nodes(self) -> builtins.list[Node]:
        """The processes that work on the database: one, or on PostgreSQL several."""
        text = await self._ask(self._engine.nodes)
        return [Node._of(row) for row in json.loads(text or "[]")]

    async def describe(self, id: str) -> Description:
        """An instance, and what it waits for."""
        text = await self._ask(self._engine.describe, id)
        if text is None:
            raise answer_error(
                json.dumps({"error": "not_found", "message": f"there is no instance {id}"})
            )
        return Description._of(json.loads(text))

    async def attempts_of(self, id: str) -> list[Attempt]:
        """The attempts of an instance that did not succeed at once."""
        text = await self._ask(self._engine.attempts, id)
        return [Attempt._of(row) for row in json.loads(text or "[]")]

    async def list(
        self,
        *,
        status: str | Sequence[str] | None = None,
        workflow: str | Workflow[..., Any] | None = None,
        tag: tuple[str, str] | None = None,
        schedule: str | None = None,
        retrying: bool = False,
        compensation: Literal["complete", "incomplete"] | None = None,
        since: dt.datetime | None = None,
        after: InstanceInfo | None = None,
        limit: int = 100,
    ) -> list[InstanceInfo]:
        """Instances, the newest first; ``after`` the last one of a page begins the next page."""
        filter = {
            "status": [status] if isinstance(status, str) else list(status or ()),
            "workflow": workflow.name if isinstance(workflow, Workflow) else workflow,
            "tag": tag,
            "schedule": schedule,
            "retrying": retrying,
            "compensation": compensation,
            "since": _millis(since),
            "after": None if after is None else after.cursor,
            "limit": limit,
        }
        text = await self._ask(self._engine.list, json.dumps(filter))
        return [InstanceInfo._of(row) for row in json.loads(text or "[]")]

    def call(self, id: str, call: str) -> Call:
        """An activity call of an instance, for operators; ``call`` is its activity and its number in
        the history, such as ``charge#6``, or its activity alone when that has one open call."""
        return Call(self, id, call)

    async def schedule(
        self,
        id: str,
        schedule: Schedule,
        workflow: Workflow[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Has a workflow started by the clock. It is durable when this returns.

        A program can say so at every start: a schedule of this id that says the same is left as it
        is. One that says something else is an error; see :meth:`replace_schedule`.
        """
        await self._put_schedule(False, id, schedule, workflow, args, kwargs)

    async def replace_schedule(
        self,
        id: str,
        schedule: Schedule,
        workflow: Workflow[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Has a workflow started by the clock, in the place of a schedule of this id."""
        await self._put_schedule(True, id, schedule, workflow, args, kwargs)

    async def _put_schedule(
        self, replace: bool, id: str, schedule: Schedule, workflow: Any, args: Any, kwargs: Any
    ) -> None:
        self._check(workflow, Workflow, "schedule")
        input, options = workflow.pack(args, kwargs), workflow._options_text()
        await self._ask(
            self._engine.schedule, schedule._json(id), workflow.name, input, options, replace
        )

    async def schedules(self) -> builtins.list[ScheduleInfo]:
        """All schedules."""
        text = await self._ask(self._engine.schedules)
        return [ScheduleInfo._of(row) for row in json.loads(text or "[]")]

    async def pause_schedule(self, id: str) -> None:
        """A schedule does not fire until it is resumed."""
        await self._ask(self._engine.change_schedule, id, "pause")

    async def resume_schedule(self, id: str) -> None:
        """Lets a paused schedule fire again."""
        await self._ask(self._engine.change_schedule, id, "resume")

    async def delete_schedule(self, id: str) -> None:
        """Deletes a schedule; its instances go on."""
        await self._ask(self._engine.change_schedule, id, "delete")

    async def describe_schedule(self, id: str) -> ScheduleInfo:
        """A schedule, and what it has done."""
        for known in await self.schedules():
            if known.id == id:
                return known
        raise NotFound(f"there is no schedule {id}")

    async def backfill(self, id: str, start: dt.datetime, end: dt.datetime) -> int:
        """Starts what a schedule would have started from ``start`` until ``end``; answers with how
        many instances."""
        text = await self._ask(self._engine.backfill, id, _millis(start), _millis(end))
        return int(text)

    async def run_schedule_now(self, id: str) -> Instance[Any]:
        """Has a schedule fire now, and answers with the instance."""
        started = await self._ask(self._engine.change_schedule, id, "fire")
        return Instance(self, str(started), None)

    async def read_tables(self, work: Callable[[Database], T]) -> T:
        """Reads your own tables in the SQLite file, outside of activities. Nothing else in this
        process may open that file; see :meth:`ActivityContext.transaction`."""
        return await self._tables(work, False)

    async def write_tables(self, work: Callable[[Database], T]) -> T:
        """Changes your own tables in one transaction, outside of activities."""
        return await self._tables(work, True)

    async def _tables(self, work: Callable[[Database], T], writes: bool) -> T:
        results: builtins.list[T] = []

        def made(native: Any) -> tuple[bool, str]:
            results.clear()
            return transact(lambda db: results.append(work(db)), native)

        await self._ask(self._engine.tables, made, writes)
        return results[0]

    async def delete(self, id: str) -> None:
        """Deletes a closed instance with everything of it; its id is free then."""
        await self._ask(self._engine.delete, id)


def _sqlite_path(url: str) -> str:
    """The file that ``FILE``, ``sqlite:FILE`` or ``sqlite:///FILE`` names."""
    return url.removeprefix("sqlite:///").removeprefix("sqlite:")


class App(_Base):
    """Workflows and activities at work on a database.

    ::

        async with App("orders.db") as app:              # or "postgresql://..."
            run = await app.start("order-42", fulfil, order)
            print(await run.result())

    The database is a SQLite file, which is made where it is not there, or a PostgreSQL database by
    its URL. One process at a time works on a file; others stand by, start, signal and look. Any
    number work on a PostgreSQL database.

    Everything that ``@activity`` and ``@workflow`` have made by now is known to the app, unless
    ``workflows`` and ``activities`` name them. ``retry`` is the policy of activities that have none;
    ``slots`` is how many attempts run at once; ``queues`` are those whose attempts run in this
    process; ``grace`` is how many seconds attempts may go on when the app stops; ``retention`` how
    long closed instances stay; ``gates`` are settings of gates by key; ``setup`` are SQL statements
    that make tables of your own in the SQLite file. With ``debug`` no timeout ends an attempt, so
    that a debugger can stop in an activity.
    """

    def __init__(
        self,
        database: str | os.PathLike[str],
        *,
        workflows: Iterable[Workflow[..., Any]] | None = None,
        activities: Iterable[Activity[..., Any]] | None = None,
        retry: Retry | None = None,
        slots: int | None = None,
        queues: Sequence[str] | None = None,
        queue_slots: Mapping[str, int] | None = None,
        hot_runs: int | None = None,
        grace: Seconds | None = None,
        retention: Seconds | None = None,
        gates: Mapping[str, GateSettings] | None = None,
        setup: str | None = None,
        max_history: int | None = None,
        max_payload: int | None = None,
        debug: bool = False,
    ):
        super().__init__(
            workflows=workflows,
            activities=activities,
            retry=retry,
            slots=slots,
            queues=queues,
            queue_slots=queue_slots,
            hot_runs=hot_runs,
            grace=grace,
            retention=retention,
            gates=gates,
            setup=setup,
            max_history=max_history,
            max_payload=max_payload,
            debug=debug,
        )
        url = os.fspath(database)
        if "://" in url and not url.startswith(("postgres://", "postgresql://", "sqlite:///")):
            raise ValueError(f"{url}: a path or postgresql://... is wanted")
        self._url = url

    def _begin(self, builder: Any) -> Any:
        if self._is_postgres:
            if self._settings["setup"] is not None:
                raise ValueError("setup= makes tables in a SQLite file")
            return builder.postgres(self._url)
        file = self._file()
        assert file is not None
        refuse_inherited(file)
        return builder.sqlite(file)

    def _file(self) -> str | None:
        return None if self._is_postgres else _sqlite_path(self._url)

    @property
    def _is_postgres(self) -> bool:
        return self._url.startswith(("postgres://", "postgresql://"))

    @property
    def is_owner(self) -> bool:
        """True while this process works on the database, and does not only ask another one to."""
        return bool(self._engine.is_owner())


class TestApp(_Base):
    """An app under test, on a database in memory, in virtual time: waiting for a result lets the
    time pass that it takes, at once.

    ::

        async with TestApp() as app:
            await app.run("order-1", fulfil, order)
            assert app.attempts(charge) == 3

    Every turn of a workflow is also replayed from the beginning (``replay=False`` leaves that out),
    so that code which depends on anything but its history is found: the instance is blocked with
    both sides shown, and whoever waits for it gets :class:`Blocked`.
    """

    __test__ = False  # not a class of tests, whatever its name looks like
    _is_test = True

    def __init__(
        self,
        *,
        replay: bool = True,
        workflows: Iterable[Workflow[..., Any]] | None = None,
        activities: Iterable[Activity[..., Any]] | None = None,
        retry: Retry | None = None,
        slots: int | None = None,
        queues: Sequence[str] | None = None,
        queue_slots: Mapping[str, int] | None = None,
        hot_runs: int | None = None,
        grace: Seconds | None = None,
        retention: Seconds | None = None,
        gates: Mapping[str, GateSettings] | None = None,
        setup: str | None = None,
        max_history: int | None = None,
        max_payload: int | None = None,
        debug: bool = False,
    ):
        if replay and hot_runs is None:
            hot_runs = 0
        super().__init__(
            workflows=workflows,
            activities=activities,
            retry=retry,
            slots=slots,
            queues=queues,
            queue_slots=queue_slots,
            hot_runs=hot_runs,
            grace=grace,
            retention=retention,
            gates=gates,
            setup=setup,
            max_history=max_history,
            max_payload=max_payload,
            debug=debug,
        )

    def _begin(self, builder: Any) -> Any:
        return builder.test()

    async def _until_ended(self, asked: asyncio.Future[Any]) -> Any:
        # A blocked instance is tried again for ever, and time passes at once: whoever waits hears
        # of it here.
        while not (await asyncio.wait([asked], timeout=0.1))[0]:
            for blocked in await self.list(status="blocked", limit=1):
                asked.cancel()
                raise Blocked(f"{blocked.id} of {blocked.workflow} is blocked: {blocked.error}")
        return asked.result()

    async def advance(self, time: Seconds) -> None:
        """Lets this much time pass, in seconds, with everything that is due in it."""
        await self._ask(self._engine.advance, seconds(time))

    async def until_parked(self) -> None:
        """Waits until nothing more happens unless time passes or somebody asks for something."""
        await self._ask(self._engine.advance, 0.0)

    async def restart(self) -> None:
        """Kills the engine, as ``kill -9`` would, and begins another one on the same database."""
        await self._ask(self._engine.restart)

    def attempts(self, activity: Activity[..., Any] | str) -> int:
        """How often an activity was attempted."""
        name = activity if isinstance(activity, str) else activity.name
        return int(self._engine.attempts_of(name))

    def commits(self) -> int:
        """How many transactions the engine has made."""
        return int(self._engine.commits())

    def now(self) -> dt.datetime:
        """The virtual time."""
        return dt.datetime.fromtimestamp(self._engine.now(), dt.timezone.utc)


def _at_exit() -> None:
    """Apps that were never stopped end as in a crash: nothing is lost."""
    for app in list(_open):
        if app._pid == os.getpid() and app._native is not None and not app._is_test:
            app._native.abandon()
            app._turns.end()


def _after_fork() -> None:
    _native.after_fork()
    after_fork(list(_open))
    _open.clear()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=_native.after_fork,
        after_in_child=_after_fork,
    )

__all__ = ["App", "Instance", "TestApp"]
