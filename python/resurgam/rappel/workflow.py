"""Workflows in Rappel's words: classes with a method ``run``, and policies at the call."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import os
import uuid
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from .. import _define
from .._app import App, _Base
from .._context import workflow_loop
from .._define import Activity
from .._retry import RetryPolicy as _RetryPolicy

C = TypeVar("C", bound=type)
R = TypeVar("R")

_app: _Base | None = None


def use(app: _Base) -> None:
    """Has workflows run on this app, from when it is open. Without it they run on one of their own,
    on the file or the URL that the environment names in ``RESURGAM_DATABASE`` (``resurgam.db``)."""
    global _app
    _app = app


async def _the_app() -> _Base:
    global _app
    if _app is None or (_app._loop is not None and _app._loop.is_closed()):
        _app = App(os.environ.get("RESURGAM_DATABASE", "resurgam.db"))
    if _app._native is None:
        await _app.open()
    return _app


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """When an action is tried again: ``attempts`` with the first included, only for failures of
    ``exception_types`` unless there are none, and ``backoff_seconds`` times two to the power of the
    attempt in between."""

    attempts: int | None = None
    exception_types: list[str] | None = None
    backoff_seconds: float | None = None

    def _ours(self) -> _RetryPolicy:
        given = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        return _RetryPolicy.from_dialect("rappel_py", given)


class Call(Awaitable[R]):
    """A call of an action that is not made yet, so that ``run_action`` can say how."""

    def __init__(self, action: Activity[..., R], args: Any, kwargs: Any):
        self._action, self._args, self._kwargs = action, args, kwargs

    def __await__(self) -> Generator[Any, None, R]:
        return self._action(*self._args, **self._kwargs).__await__()

    def _with(self, **options: Any) -> Call[R]:
        return Call(self._action.options(**options), self._args, self._kwargs)


class Action:
    """A unit of work. ``@action`` makes one of an ``async def``."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None):
        functools.update_wrapper(self, fn)
        self._activity: Activity[..., Any] = _define.activity(name=name, retry={"max_attempts": 1})(
            fn
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if workflow_loop() is None:
            return self._activity.fn(*args, **kwargs)
        return Call(self._activity, args, kwargs)


def action(fn: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Makes a function an action. It is not tried again unless ``run_action`` says so."""
    return (lambda fn: Action(fn, name)) if fn is None else Action(fn, name)


class Workflow:
    """A workflow: a class under ``@workflow`` with an ``async def run``."""

    name: ClassVar[str | None] = None

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """The program. Outside of a workflow, this starts it and waits for the result."""
        raise NotImplementedError

    async def run_action(
        self,
        awaitable: Awaitable[R],
        *,
        retry: RetryPolicy | None = None,
        timeout: float | timedelta | None = None,
    ) -> R:
        """Calls an action with a policy, and with a bound on each attempt, in seconds."""
        if not isinstance(awaitable, Call):
            raise TypeError(f"run_action takes the call of an action, not {awaitable!r:.60}")
        policy = retry._ours() if retry is not None else None
        result: R = await awaitable._with(retry=policy, timeout=timeout)
        return result

    @classmethod
    def short_name(cls) -> str:
        """The name on the wire."""
        return cls.name or cls.__name__.lower()


def workflow(cls: C) -> C:
    """Makes a class with an ``async def run`` a workflow."""
    inner = cls.run  # type: ignore[attr-defined]
    made: Any = _define.workflow(name=cls.short_name())(_program(cls, inner))  # type: ignore[attr-defined]

    @functools.wraps(inner)
    async def run(self: Any, *args: Any, _blocking: bool = True, **kwargs: Any) -> Any:
        if workflow_loop() is not None:
            return await inner(self, *args, **kwargs)
        app = await _the_app()
        id = f"{made.name}-{uuid.uuid4().hex}"
        if not _blocking:
            await app.start(id, made, *args, **kwargs)
            return id
        return await app.run(id, made, *args, **kwargs)

    cls.run = run  # type: ignore[attr-defined]
    cls._resurgam = made  # type: ignore[attr-defined]
    return cls


def _program(cls: Any, run: Any) -> Any:
    """The method as a function of its arguments: each run has an object of its own."""
    if not asyncio.iscoroutinefunction(run):
        raise TypeError(f"{cls.__name__}.run is an async def")

    async def program(**kwargs: Any) -> Any:
        return await run(cls(), **kwargs)

    signature = inspect.signature(run)
    parameters = list(signature.parameters.values())[1:]
    program.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    program.__wrapped__ = run  # type: ignore[attr-defined]
    program.__annotations__ = dict(run.__annotations__)
    program.__name__, program.__doc__ = cls.__name__, cls.__doc__
    program.__module__, program.__qualname__ = cls.__module__, cls.__qualname__
    return program
