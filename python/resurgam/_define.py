"""``@activity`` and ``@workflow``."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import sys
import typing
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from . import _codec
from ._context import ActivityContext, WorkflowContext, workflow_loop
from ._failures import NotInWorkflow, Snooze, TerminalError, dump, seconds
from ._loop import WorkflowLoop
from ._retry import RetryPolicy, policy_json

P = ParamSpec("P")
R = TypeVar("R")
Retry = RetryPolicy | Mapping[str, Any]
Seconds = float | timedelta
Fn = Callable[..., Any]

ACTIVITIES: dict[str, Activity[..., Any]] = {}
WORKFLOWS: dict[tuple[str, int], Workflow[..., Any]] = {}


def _options(**given: Any) -> dict[str, Any]:
    """Options in their JSON form."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in ("retry", "compensation_retry"):
            value = policy_json(value)
        elif name.endswith("timeout") or name == "delay":
            value = seconds(value)
            if value < 0:
                raise ValueError(f"{name}={value}: a time is not negative")
        elif name == "tags":
            value = {str(key): str(item) for key, item in value.items()}
        made[name] = value
    return made


class Bound:
    """An activity with its arguments: a call that is described and not made. ``activity.bind(..)``
    makes one."""

    __slots__ = ("name", "input", "options")

    def __init__(self, name: str, input: str, options: str | None):
        self.name, self.input, self.options = name, input, options

    def __repr__(self) -> str:
        return f"<{self.name} bound to {self.input}>"


class _Definition(Generic[P, R]):
    """What activities and workflows have in common: a name, arguments by name, annotations."""

    _context: type[Any]
    _kind: str

    def __init__(self, fn: Fn, name: str | None):
        if not callable(fn) or isinstance(fn, type):
            raise TypeError(f"@{self._kind} goes on a function, not on {fn!r}")
        self.fn = fn
        self.name = name if name is not None else fn.__name__
        if not self.name.strip():
            raise ValueError(f"@{self._kind}: an empty name is not allowed")
        self.__wrapped__, self.__doc__, self.__name__ = fn, fn.__doc__, fn.__name__
        self.__module__, self.__qualname__ = fn.__module__, fn.__qualname__
        self._options: dict[str, Any] = {}
        # What a function in a function is annotated with may be found nowhere else later.
        local = "<locals>" in fn.__qualname__
        self._locals = dict(sys._getframe(3).f_locals) if local else {}
        self._names = self._parameters()
        self._read: Callable[[str], dict[str, Any]] | None = None
        self._decode: Callable[[str], Any] | None = None

    def _parameters(self) -> list[str]:
        parameters = list(inspect.signature(self.fn).parameters.values())
        self._takes_context = bool(parameters) and self._is_context(parameters[0])
        if self._takes_context:
            parameters = parameters[1:]
        for parameter in parameters:
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise TypeError(
                    f"{self.name}(*{parameter.name}): arguments are stored by name; take a list"
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise TypeError(
                    f"{self.name}({parameter.name}, /): arguments are stored by name; leave the "
                    "slash out"
                )
            if parameter.kind is parameter.VAR_KEYWORD:
                raise TypeError(f"{self.name}(**{parameter.name}): take a dict instead")
            if parameter.name in ("self", "cls"):
                raise TypeError(
                    f"@{self._kind} on the method {self.fn.__qualname__}: an instance cannot be "
                    "stored; use a function, and let the object be found from its arguments"
                )
        self._defaults = {p.name for p in parameters if p.default is not p.empty}
        return [parameter.name for parameter in parameters]

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        note = parameter.annotation
        text = note if isinstance(note, str) else getattr(note, "__name__", "")
        return str(text).rpartition(".")[2] == self._context.__name__

    def _resolve(self) -> None:
        """Reads the annotations, which may name what is defined later."""
        if self._read is not None:
            return
        try:
            hints = typing.get_type_hints(self.fn, localns=self._locals, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"@{self._kind} {self.name}: an annotation cannot be read: {error}; what it names "
                "must be importable at run time, not only under TYPE_CHECKING"
            ) from None
        try:
            self._decode = _codec.decoder(hints.get("return", Any))
            self._read = _codec.reader({name: hints.get(name, Any) for name in self._names})
        except TypeError as error:
            raise TypeError(f"@{self._kind} {self.name}: {error}") from None

    @property
    def decode(self) -> Callable[[str], Any]:
        self._resolve()
        assert self._decode is not None
        return self._decode

    def read(self, text: str) -> dict[str, Any]:
        """Arguments by name from their stored form."""
        self._resolve()
        assert self._read is not None
        return self._read(text)

    def encode(self, value: Any) -> str:
        return _codec.encode(value)

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Arguments in their stored form."""
        names = self._names
        if len(args) > len(names):
            raise TypeError(
                f"{self.name}() takes {len(names)} arguments, and {len(args)} were given"
            )
        values = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in values:
                raise TypeError(f"{self.name}() got two values for {name}")
            if name not in names:
                raise TypeError(f"{self.name}() has no parameter {name}")
            values[name] = value
        if len(values) < len(names):
            missing = [n for n in names if n not in values and n not in self._defaults]
            if missing:
                raise TypeError(f"{self.name}() needs {', '.join(missing)}")
        try:
            return _codec.encode(values)
        except (TypeError, ValueError) as error:
            # Not its own class: some, such as UnicodeDecodeError, are not made of a text.
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"the arguments of {self.name}: {error}") from error

    def _options_text(self) -> str | None:
        return json.dumps(self._options) if self._options else None

    def __repr__(self) -> str:
        return f"<{self._kind} {self.name}>"


class Activity(_Definition[P, R]):
    """A unit of work that is retried by policy. ``@activity`` makes one of a function."""

    _context: type[Any] = ActivityContext
    _kind = "activity"

    def __init__(self, fn: Fn, name: str | None = None, compensate: Any = None, **options: Any):
        super().__init__(fn, name)
        self.is_async = inspect.iscoroutinefunction(fn)
        self.defaults = _options(**options)
        self._compensate = compensate

    def _options_text(self) -> str | None:
        # These two are decided where the call is made, and not where it runs.
        of_calls = ("gate", "compensation_retry")
        own = {name: self.defaults[name] for name in of_calls if name in self.defaults}
        given = {**own, **self._options}
        return json.dumps(given) if given else None

    def options(
        self,
        *,
        retry: Retry | None = None,
        timeout: Seconds | None = None,
        total_timeout: Seconds | None = None,
        queue_timeout: Seconds | None = None,
        heartbeat_timeout: Seconds | None = None,
        queue: str | None = None,
        gate: str | None = None,
        compensate: Callable[[R], Bound] | Activity[..., Any] | None = None,
        compensation_retry: Retry | None = None,
    ) -> Activity[P, R]:
        """The same activity, with options for the calls that are made through it::

            receipt = await charge.options(timeout=5, compensate=lambda r: refund.bind(r.id))(order)

        ``retry`` replaces the policy of the activity, ``timeout`` bounds one attempt,
        ``total_timeout`` the call, ``queue_timeout`` the wait for a worker, ``heartbeat_timeout`` an
        attempt's silence. ``compensate`` makes the call that undoes this one from its result: when
        the workflow fails or is cancelled, those of all completed calls are made, last first;
        ``compensation_retry`` is their policy. ``gate`` is the key of the gate that the call is
        behind, such as ``"stripe"``, or a template over the arguments, such as ``"host:{host}"``.
        """
        other = copy.copy(self)
        given = _options(
            retry=retry,
            timeout=timeout,
            total_timeout=total_timeout,
            queue_timeout=queue_timeout,
            heartbeat_timeout=heartbeat_timeout,
            queue=queue,
            gate=gate,
            compensation_retry=compensation_retry,
        )
        other._options = {**self._options, **given}
        other._compensate = compensate if compensate is not None else self._compensate
        return other

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound:
        """A call of this activity that is described and not made: what undoes something."""
        return Bound(self.name, self.pack(args, kwargs), self._options_text())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Calls the activity from a workflow."""
        loop = workflow_loop()
        if loop is None:
            raise NotInWorkflow(
                f"{self.name}(...) is a durable call, which only a workflow can make. To run the "
                f"function itself: {self.name}.fn(...). To run it durably by itself: "
                f"app.submit(id, {self.name}, ...)"
            )
        return self._call(loop, self.pack(args, kwargs))

    async def _call(self, loop: WorkflowLoop, input: str) -> R:
        undo = None if self._compensate is None else self._undo
        key = loop.run.call(self.name, input, self._options_text(), undo)
        result: R = await loop.wait(key, self.decode)
        return result

    def _undo(self, result: str) -> tuple[str, str, str | None]:
        make: Any = self._compensate
        value = self.decode(result)
        undo = make.bind(value) if isinstance(make, Activity) else make(value)
        if not isinstance(undo, Bound):
            if inspect.iscoroutine(undo):
                undo.close()
            raise TypeError(
                f"compensate of {self.name} gave {undo!r:.60}; it gives what is to be called, such "
                "as refund.bind(receipt.id)"
            )
        return (undo.name, undo.input, undo.options)

    def _register(self, builder: Any, place: int, options: str) -> None:
        """Tells an app that is being built of it."""
        if self.is_async:
            builder.activity(self.name, place, options)
        else:
            builder.blocking(self.name, self.attempt_plain, options)

    # One attempt.

    async def attempt(self, app: Any, port: Any, id: int, input: str, native: Any) -> None:
        """Makes an attempt on the event loop."""
        try:
            values = self._values(input)
            args = (ActivityContext(native, app),) if self._takes_context else ()
            port.complete(id, self._result(await self.fn(*args, **values)))
        except asyncio.CancelledError as error:
            if native.is_cancelled:
                port.fail(id, '{"kind":"cancelled","message":"the attempt was cancelled"}')
            else:
                port.fail(id, dump(error))
        except BaseException as error:
            port.fail(id, dump(error))
            if not isinstance(error, Exception):
                raise

    def attempt_plain(self, input: str, native: Any) -> tuple[bool, str]:
        """Makes an attempt on this thread."""
        try:
            values = self._values(input)
            args = (ActivityContext(native, None),) if self._takes_context else ()
            result = self.fn(*args, **values)
            if inspect.iscoroutine(result):
                result.close()
                raise TerminalError(f"{self.name} returned a coroutine: make it an async def")
            return (True, self._result(result))
        except asyncio.CancelledError:
            return (False, '{"kind":"cancelled","message":"the attempt was cancelled"}')
        except BaseException as error:
            return (False, dump(error))

    def _values(self, input: str) -> dict[str, Any]:
        try:
            return self.read(input)
        except Exception as error:
            raise BadInput(f"read the arguments of {self.name}: {error}") from error

    def _result(self, result: Any) -> str:
        try:
            return _codec.encode(result)
        except (TypeError, ValueError) as error:
            raise BadOutput(f"write the result of {self.name}: {error}") from error


class BadInput(TerminalError):
    """The arguments of a call are not what the activity takes."""


class BadOutput(TerminalError):
    """An activity returned something that has no JSON form."""


class Workflow(_Definition[P, R]):
    """A durable program. ``@workflow`` makes one of an ``async def``."""

    _context: type[Any] = WorkflowContext
    _kind = "workflow"

    def __init__(self, fn: Fn, name: str | None = None, version: int = 1, **options: Any):
        super().__init__(fn, name)
        if not inspect.iscoroutinefunction(fn):
            raise TypeError(f"@workflow {self.name}: a workflow is an async def")
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"@workflow {self.name}: version={version!r}: a number from 1")
        self.version = version
        self._options = _options(**options)

    def options(
        self,
        *,
        id: str | None = None,
        retry: Retry | None = None,
        run_timeout: Seconds | None = None,
        total_timeout: Seconds | None = None,
        delay: Seconds | None = None,
        queue: str | None = None,
        priority: int | None = None,
        tags: Mapping[str, str] | None = None,
        request_id: str | None = None,
        if_exists: Literal["refuse", "use_running", "replace_closed", "use_running_or_replace"]
        | None = None,
        parent_close: Literal["cancel", "terminate", "abandon"] | None = None,
    ) -> Workflow[P, R]:
        """The same workflow, with options for what is started through it::

            await app.start("order-42", fulfil.options(tags={"shop": "north"}), order)
            await fulfil.options(id="order-43", parent_close="abandon")(order)   # a child

        ``id`` and ``parent_close`` are for children; ``queue``, ``priority``, ``tags``,
        ``request_id`` and ``if_exists`` for what an app starts.
        """
        other = copy.copy(self)
        given = _options(
            id=id,
            retry=retry,
            run_timeout=run_timeout,
            total_timeout=total_timeout,
            delay=delay,
            queue=queue,
            priority=priority,
            tags=tags,
            request_id=request_id,
            if_exists=if_exists,
            parent_close=parent_close,
        )
        other._options = {**self._options, **given}
        return other

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Starts the workflow as a child of another one, and waits for its result."""
        loop = workflow_loop()
        if loop is None:
            raise NotInWorkflow(
                f"{self.name}(...) starts a child, which only a workflow can do. Elsewhere: "
                f"await app.start(id, {self.name}, ...), or app.run(id, {self.name}, ...)"
            )
        return self._call(loop, self.pack(args, kwargs))

    async def _call(self, loop: WorkflowLoop, input: str) -> R:
        key = loop.run.child(self.name, input, self._options_text())
        result: R = await loop.wait(key, self.decode)
        return result

    def start_detached(self, id: str, *args: P.args, **kwargs: P.kwargs) -> None:
        """Starts an instance from a workflow and thinks no more of it: it goes on whatever becomes
        of the workflow that has started it."""
        loop = workflow_loop()
        if loop is None:
            raise NotInWorkflow(f"start_detached is for workflows; elsewhere: app.start(id, "
                                f"{self.name}, ...)")
        options = {**self._options, "id": id, "parent_close": "detached"}
        loop.run.child(self.name, self.pack(args, kwargs), json.dumps(options))

    def make(self, run: Any, input: str) -> WorkflowLoop:
        """A run of it, for the engine."""
        values = self.read(input)
        loop = WorkflowLoop(run, self)
        args = (WorkflowContext(loop),) if self._takes_context else ()
        loop.begin(self.fn(*args, **values))
        return loop


def _register(known: dict[Any, Any], key: Any, made: Any) -> None:
    """Reloading a module replaces a definition; two functions of one name are a mistake."""
    other = known.get(key)
    if other is not None and (other.__module__, other.__qualname__) != (
        made.__module__,
        made.__qualname__,
    ):
        raise ValueError(
            f"{made!r} is there already, from {other.__module__}.{other.__qualname__}; give one of "
            f'them another name: @{made._kind}(name="...")'
        )
    known[key] = made


@overload
def activity(fn: Callable[Concatenate[ActivityContext, P], Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
@overload
def activity(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
@overload
def activity(fn: Callable[Concatenate[ActivityContext, P], R], /) -> Activity[P, R]: ...
@overload
def activity(fn: Callable[P, R], /) -> Activity[P, R]: ...
@overload
def activity(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    timeout: Seconds | None = None,
    total_timeout: Seconds | None = None,
    queue_timeout: Seconds | None = None,
    heartbeat_timeout: Seconds | None = None,
    queue: str | None = None,
    max_concurrent: int | None = None,
    gate: str | None = None,
    compensate: Any = None,
    compensation_retry: Retry | None = None,
) -> _ActivityMaker: ...
def activity(fn: Any = None, /, **options: Any) -> Any:
    """Makes a function an activity: a unit of work that is retried by policy.

    ::

        @activity(retry=RetryPolicy.exponential(0.2).max_attempts(8), timeout=10)
        async def charge(ctx: ActivityContext, order: Order) -> Receipt: ...

    An ``async def`` runs on the event loop that the app was opened in, a plain ``def`` on a thread.
    The context is optional. Arguments and results travel as JSON and are read by annotation.
    """

    def wrap(fn: Any) -> Any:
        made: Activity[..., Any] = Activity(fn, **options)
        _register(ACTIVITIES, made.name, made)
        return made

    return wrap if fn is None else _wrapped(wrap, fn)


def _wrapped(wrap: Callable[[Any], Any], fn: Any) -> Any:
    # One frame more, so that a definition finds its function's locals in the same place.
    return wrap(fn)


class _ActivityMaker(typing.Protocol):
    @overload
    def __call__(self, fn: Callable[Concatenate[ActivityContext, P], Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ActivityContext, P], R], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Activity[P, R]: ...


@overload
def workflow(fn: Callable[Concatenate[WorkflowContext, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: int = 1,
    retry: Retry | None = None,
    run_timeout: Seconds | None = None,
    total_timeout: Seconds | None = None,
    queue: str | None = None,
) -> _WorkflowMaker: ...
def workflow(fn: Any = None, /, **options: Any) -> Any:
    """Makes an ``async def`` a workflow: a durable program.

    ::

        @workflow
        async def fulfil(order: Order) -> Receipt:
            receipt = await charge(order)
            await asyncio.sleep(86400)
            await ship(order)
            return receipt

    Its code is run again from the beginning after a crash, and what it has done before is answered
    from the record. So it must take the same way again: it waits for activities, children, signals
    and timers only, and takes the time, random numbers and UUIDs from :func:`now`, :func:`random`
    and :func:`uuid4`.
    """

    def wrap(fn: Any) -> Any:
        made: Workflow[..., Any] = Workflow(fn, **options)
        _register(WORKFLOWS, (made.name, made.version), made)
        return made

    return wrap if fn is None else _wrapped(wrap, fn)


class _WorkflowMaker(typing.Protocol):
    @overload
    def __call__(self, fn: Callable[Concatenate[WorkflowContext, P], Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


__all__ = ["Activity", "Bound", "Snooze", "Workflow", "activity", "workflow"]
