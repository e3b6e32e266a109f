"""The event loop of one run: what is ready runs in order, and time is that of the history.

Everything of asyncio that is made of futures, tasks and ``call_later`` works: ``gather``, ``sleep``,
``wait_for``, ``timeout``, ``TaskGroup``, ``Queue``, ``Event``, ``Lock``. What would wait for the
world outside (sockets, threads, subprocesses) is refused with a sentence that says what to do.

The order in which things happen follows from the history alone. Tasks and futures are hashed by a
counter of the run, because asyncio iterates over sets of them.
"""

# mypy: disable-error-code="override, assignment, misc"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportAssignmentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from ._failures import NotDurable, dump, from_record

_set_running = asyncio._set_running_loop
# A turn that takes more steps than this waits for nothing.
_MAX_STEPS = 200_000

RETURNED, FAILED, CONTINUES, CANCELLED, BLOCKED = range(5)


class ContinueAsNew(BaseException):
    """Ends a run; the next one of the instance begins with this input."""

    def __init__(self, input: str):
        super().__init__("the next run goes on")
        self.input = input


class _Task(asyncio.Task[Any]):
    def __init__(self, coro: Any, loop: WorkflowLoop, **options: Any):
        # asyncio keeps the tasks of all loops in one weak set, where the first tasks of ten thousand
        # runs would all have the same hash. It asks for the hash in here, and keeps it.
        self._hash = id(self) >> 4
        super().__init__(coro, loop=loop, **options)
        self._hash = loop._next_number()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other


class _Future(asyncio.Future[Any]):
    def __init__(self, loop: WorkflowLoop):
        self._number = loop._next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Timer(asyncio.TimerHandle):
    __slots__ = ("key",)
    key: int


def _is_as_completed() -> bool:
    """True when ``asyncio.as_completed`` makes a task: it does so in the order of a set."""
    frame = sys._getframe(2)
    for _ in range(5):
        if frame.f_globals.get("__name__") == "asyncio.tasks" and (
            frame.f_code.co_name == "as_completed"
            or frame.f_code.co_qualname.startswith("_AsCompletedIterator")
        ):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


class WorkflowLoop(asyncio.AbstractEventLoop):
    """The event loop of one run."""

    def __init__(self, run: Any, workflow: Any):
        self.run = run
        self.workflow = workflow
        self._numbers = 0
        self._ready: deque[asyncio.Handle] = deque()
        self._waits: dict[int, tuple[asyncio.Future[Any], Callable[[str], Any]]] = {}
        self._timers: dict[int, _Timer] = {}
        self._tasks: dict[_Task, None] = {}
        self._blocked: BaseException | None = None
        self._context = contextvars.Context()
        self._main: _Task | None = None
        self.cancelled: str | None = None
        self.is_over = False

    # What the engine calls.

    def begin(self, main: Coroutine[Any, Any, Any]) -> None:
        """The coroutine of the run, which begins with the first turn."""
        self._main = self._context.run(self.create_task, main)

    def turn(self, outcomes: list[tuple[int, bool, str | None]], cancelled: str | None) -> Any:
        """Takes notice of what has happened, and runs what is ready. ``None`` when the code waits."""
        previous = asyncio._get_running_loop()
        _set_running(self)
        try:
            return self._context.run(self._turn, outcomes, cancelled)
        except NotDurable as error:
            return (BLOCKED, str(error))
        finally:
            _set_running(previous)

    def _turn(self, outcomes: list[tuple[int, bool, str | None]], cancelled: str | None) -> Any:
        main = self._main
        assert main is not None
        if cancelled is not None:
            self.cancelled = cancelled
            main.cancel(cancelled)
        for key, ok, text in outcomes:
            self._outcome(key, ok, text)
        ready = self._ready
        steps = 0
        while ready and not main.done():
            ready.popleft()._run()
            steps += 1
            if self._blocked is not None:
                raise self._blocked
            if steps > _MAX_STEPS:
                raise NotDurable("the workflow's code never waits for anything durable")
        if main.done():
            return self._ended(main)
        if not self._waits and not self._timers:
            raise NotDurable(_AWAITS_NOTHING)
        return None

    def _outcome(self, key: int, ok: bool, text: str | None) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            if ok and not timer.cancelled():
                self._ready.append(timer)
            return
        wait = self._waits.pop(key, None)
        if wait is None or wait[0].done():
            return
        future, decode = wait
        if not ok:
            future.set_exception(_raisable(from_record(json.loads(text or "{}"))))
            return
        try:
            future.set_result(decode(text or "null"))
        except Exception as error:
            raise NotDurable(
                f"a recorded value does not fit its annotation in {self.workflow.name}: {error}; "
                "mend the annotation, and the run goes on"
            ) from error

    def _ended(self, main: _Task) -> tuple[int, str]:
        if main.cancelled():
            if self.cancelled is not None:
                return (CANCELLED, "")
            return (FAILED, dump(asyncio.CancelledError("cancelled by its own code")))
        error = main.exception()
        if error is None:
            try:
                return (RETURNED, self.workflow.encode(main.result()))
            except (TypeError, ValueError) as problem:
                raise NotDurable(
                    f"the result of {self.workflow.name} cannot be stored: {problem}"
                ) from problem
        if isinstance(error, ContinueAsNew):
            return (CONTINUES, error.input)
        if isinstance(error, NotDurable):
            raise error
        if isinstance(error, RuntimeError) and "attached to a different loop" in str(error):
            raise NotDurable(_FOREIGN_FUTURE) from error
        return (FAILED, dump(error))

    def close(self) -> None:
        """Evicted or over. ``GeneratorExit`` goes to every coroutine now and in order, not whenever
        somebody collects garbage; what ``finally`` asks for changes nothing any more."""
        if self.is_over:
            return
        self.is_over = True
        previous = asyncio._get_running_loop()
        _set_running(self)
        try:
            self._context.run(self._close)
        finally:
            _set_running(previous)

    def _close(self) -> None:
        for task in list(self._tasks):
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                try:
                    coro: Any = task.get_coro()
                    coro.close()
                except BaseException:  # the code ignored GeneratorExit, or worse: it is over
                    pass
        for future, _ in self._waits.values():
            if not future.done():
                future.remove_done_callback(self._forget_cancelled)
        self._tasks.clear()
        self._ready.clear()
        self._waits.clear()
        self._timers.clear()

    # What the workflow's code asks for.

    def wait(self, key: int, decode: Callable[[str], Any]) -> asyncio.Future[Any]:
        """A future for something durable. Cancelling it cancels that."""
        future = _Future(self)
        future._key = key  # type: ignore[attr-defined]
        self._waits[key] = (future, decode)
        future.add_done_callback(self._forget_cancelled)
        return future

    def _forget_cancelled(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled() and not self.is_over:
            key: int = future._key  # type: ignore[attr-defined]
            self._waits.pop(key, None)
            self.run.forget(key)

    def refuse(self, what: str, instead: str = "move it into an activity") -> Any:
        """Blocks the run, whatever its code does with the exception."""
        self._blocked = NotDurable(
            f"the workflow {self.workflow.name} uses {what}, which is not durable: {instead}"
        )
        raise self._blocked

    # What asyncio asks for.

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        if delay <= 0:
            return self.call_soon(callback, *args, context=context)
        handle = _Timer(self.time() + delay, callback, args, self, context)
        handle._scheduled = True  # type: ignore[attr-defined]
        handle.key = self.run.timer(max(round(delay, 3), 0.001))
        self._timers[handle.key] = handle
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_later(round(when - self.time(), 3), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        if self._timers.pop(handle.key, None) is not None and not self.is_over:
            self.run.forget(handle.key)

    def time(self) -> float:
        now: float = self.run.now()
        return now

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(self)

    def create_task(
        self, coro: Any, *, name: Any = None, context: Any = None, **options: Any
    ) -> asyncio.Task[Any]:
        if _is_as_completed():
            coro.close()
            self.refuse(
                "asyncio.as_completed on coroutines, which begins them in no particular order",
                "make tasks of them first: as_completed([asyncio.create_task(c) for c in ...])",
            )
        options.pop("eager_start", None)
        if context is not None:
            options["context"] = context
        task = _Task(coro, loop=self, name=name, **options)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)  # type: ignore[call-overload]

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        pass

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        return None

    def get_exception_handler(self) -> None:
        return None

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, NotDurable):
            self._blocked = error

    call_exception_handler = default_exception_handler

    async def shutdown_asyncgens(self) -> None:
        pass

    def _asyncgen_firstiter_hook(self, generator: Any) -> None:
        pass

    # What is not durable.

    def run_in_executor(self, *_: Any, **__: Any) -> Any:
        return self.refuse("a thread (asyncio.to_thread, run_in_executor)")

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> Any:
        return self.refuse(
            "call_soon_threadsafe", "send the instance a signal from the other thread"
        )

    def add_reader(self, *_: Any, **__: Any) -> Any:
        return self.refuse("a file descriptor")

    def add_signal_handler(self, *_: Any, **__: Any) -> Any:
        return self.refuse("a signal of the operating system", "handle it where the app is opened")

    add_writer = remove_reader = remove_writer = add_reader
    remove_signal_handler = add_signal_handler

    async def create_connection(self, *_: Any, **__: Any) -> Any:
        self.refuse("a socket")

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        self.refuse("the network")

    async def subprocess_exec(self, *_: Any, **__: Any) -> Any:
        self.refuse("a subprocess")

    subprocess_shell = subprocess_exec
    create_server = create_connection
    create_unix_connection = create_connection
    create_unix_server = create_connection
    create_datagram_endpoint = create_connection
    sock_connect = create_connection
    sock_accept = create_connection
    sock_recv = create_connection
    sock_recv_into = create_connection
    sock_recvfrom = create_connection
    sock_recvfrom_into = create_connection
    sock_sendall = create_connection
    sock_sendto = create_connection
    sock_sendfile = create_connection
    start_tls = create_connection
    sendfile = create_connection
    connect_accepted_socket = create_connection
    getnameinfo = getaddrinfo
    connect_read_pipe = create_connection
    connect_write_pipe = create_connection

    def run_forever(self) -> Any:
        return self.refuse("run_forever", "a workflow runs in the loop that it is in")

    run_until_complete = run_forever
    stop = run_forever
    set_default_executor = run_forever
    set_task_factory = run_forever
    set_exception_handler = run_forever
    shutdown_default_executor = run_forever


_AWAITS_NOTHING = (
    "the workflow waits for something that the engine will never bring: a future that nobody sets, "
    "an asyncio.Event or Queue that only this workflow knows; wait for an activity, a child, a "
    "signal or asyncio.sleep"
)
_FOREIGN_FUTURE = (
    "the workflow awaits a future of another event loop, which is not durable: do the work in an "
    "activity, or send the instance a signal when it is done"
)


def _raisable(error: BaseException) -> BaseException:
    """An exception that a future takes: asyncio has no place for StopIteration there."""
    if isinstance(error, StopIteration):
        return RuntimeError(f"StopIteration: {error}")
    return error
