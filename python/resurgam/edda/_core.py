"""Edda's words on this engine. What is different is said in the guide for those who come from Edda."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import logging
import uuid
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .. import _codec, _define
from .._app import App
from .._context import workflow_loop
from .._define import Activity, Workflow, _register
from .._failures import (
    ActivityError,
    Cancelled,
    NotFound,
    ResurgamError,
    TerminalError,
    dump,
    failure_of,
    from_record,
)
from .._loop import CANCELLED, FAILED, RETURNED, ContinueAsNew, WorkflowLoop
from .._retry import RetryPolicy as _RetryPolicy

Fn = Callable[..., Any]
F = TypeVar("F", bound=Fn)

_log = logging.getLogger("resurgam.edda")
_app: EddaApp | None = None
_parked: dict[str, _Parked] = {}
_compensations: dict[str, Fn] = {}

#: Where an instance notes which event it waits for.
_WAITS = "edda.waits"

# What this package needs of its own, beside what the program has.
_own: list[Any] = []
_own_workflows: list[Any] = []


class _Parked(asyncio.Event):
    """An instance waits; for what is what it notes in its data."""

    waits = "null"


class RetryExhaustedError(Exception):
    """All attempts of an activity have failed; the last exception is the ``__cause__``."""


class EventTimeoutError(TimeoutError):
    """No event came in time."""


class WorkflowCancelledException(Exception):
    """The workflow was cancelled."""


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """When an activity is tried again. Times are seconds; ``max_attempts`` counts the first."""

    initial_interval: float = 1.0
    backoff_coefficient: float = 2.0
    max_interval: float = 60.0
    max_attempts: int | None = 5
    max_duration: float | None = 300.0
    retryable_error_types: tuple[type[BaseException], ...] = (Exception,)
    non_retryable_error_types: tuple[type[BaseException], ...] = ()

    def _ours(self) -> _RetryPolicy:
        given = dataclasses.asdict(self)
        for name in ("retryable_error_types", "non_retryable_error_types"):
            given[name] = [error.__name__ for error in getattr(self, name)]
        return _RetryPolicy.from_dialect("edda", given)


@dataclasses.dataclass
class ReceivedEvent:
    """An event that a workflow has waited for."""

    data: Any
    type: str = ""
    source: str = ""
    id: str = ""
    time: str | None = None
    subject: str | None = None
    extensions: dict[str, Any] = dataclasses.field(default_factory=dict)


class WorkflowContext:
    """In a workflow its run, in an activity its attempt."""

    def __init__(self, instance_id: str, loop: WorkflowLoop | None = None, attempt: Any = None):
        self.instance_id = instance_id
        self._loop, self._attempt = loop, attempt
        self._undo: list[tuple[str, dict[str, Any]]] = []
        self._events: list[dict[str, Any]] = []

    @property
    def is_replaying(self) -> bool:
        """True while the code goes again through what has happened before."""
        return self._loop is not None and bool(self._loop.run.is_replaying)

    @property
    def session(self) -> Any:
        """Not offered: the database is the engine's."""
        raise ResurgamError(
            "ctx.session is SQLAlchemy's, and the engine does not use that: open a session of your "
            "own in the activity, with ctx's idempotency in mind"
        )


class EddaActivity(Activity[..., Any]):
    """An activity in Edda's words: the context is its first argument."""

    _context = WorkflowContext
    on_failure: Fn | None = None

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        return True

    def __call__(self, ctx: Any, *args: Any, activity_id: str | None = None, **kwargs: Any) -> Any:
        loop = workflow_loop()
        if loop is None:
            return self.fn(ctx, *args, **kwargs)
        values = {**dict(zip(self._names, args)), **kwargs}
        return self._durable(loop, ctx, self.pack(args, kwargs), values)

    async def _durable(self, loop: WorkflowLoop, ctx: Any, input: str, given: Any) -> Any:
        def undo(text: str) -> tuple[str, str, str | None]:
            answer = json.loads(text)
            calls = list(answer["undo"])
            if self.on_failure is not None:
                result = answer["result"] if isinstance(answer["result"], dict) else {}
                known = {**json.loads(_codec.encode(given)), **result}
                calls.append([self.on_failure.__name__, _fitting(self.on_failure, known)])
            return _undoes(calls)

        key = loop.run.call(self.name, input, self._options_text(), undo)
        try:
            answer = await loop.wait(key, json.loads)
        except (TerminalError, asyncio.CancelledError):
            raise
        except Exception as error:
            failure = failure_of(error)
            attempts = failure.attempts if failure is not None else None
            why = failure.why if failure is not None else None
            reason = f"Max attempts ({attempts}) reached" if why == "max_attempts" else why
            raise RetryExhaustedError(
                f"Activity {self.name} failed after {attempts} attempts: {reason}"
            ) from error
        if answer.get("events"):
            from ._outbox import send_off

            send_off(answer["events"])
        return self.decode(json.dumps(answer["result"]))

    async def attempt(self, app: Any, port: Any, id: int, input: str, native: Any) -> None:
        ctx = WorkflowContext(native.instance_id, attempt=native)
        about = (native.instance_id, f"{self.name}:{native.idempotency_key}", self.name)
        is_theirs = self not in _own
        try:
            if is_theirs:
                await _tell("on_activity_start", *about, False)
            result = self.fn(ctx, **self._values(input))
            if inspect.isawaitable(result):
                result = await result
            made: dict[str, Any] = {"result": result, "undo": [[n, kw] for n, kw in ctx._undo]}
            if ctx._events:
                made["events"] = ctx._events
            text = self._result(made)
            if is_theirs:
                await _tell("on_activity_complete", *about, result, False)
            port.complete(id, text)
        except asyncio.CancelledError as error:
            cancelled = '{"kind":"cancelled","message":"the attempt was cancelled"}'
            port.fail(id, cancelled if native.is_cancelled else dump(error))
        except BaseException as error:
            if is_theirs and isinstance(error, Exception):
                await _tell("on_activity_failed", *about, error)
            port.fail(id, dump(error))


def _undoes(calls: list[Any]) -> tuple[str, str, str | None]:
    return (_compensate.name, _codec.encode({"calls": calls}), None)


def _fitting(fn: Fn, values: dict[str, Any]) -> dict[str, Any]:
    names = list(inspect.signature(fn).parameters)[1:]
    return {name: values[name] for name in names if name in values}


def _arguments(made: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Values for a workflow. One that takes a model and nothing else may be given its fields."""
    names = made._names
    if len(names) == 1 and names[0] not in values:
        hint = made.fn.__annotations__.get(names[0])
        cls = made.fn.__globals__.get(hint) if isinstance(hint, str) else hint
        if hasattr(cls, "model_fields") or dataclasses.is_dataclass(cls):
            return {names[0]: values}
    return values


async def _compensate_all(ctx: Any, calls: list[Any]) -> None:
    for name, kwargs in reversed(calls):
        compensation = _compensations[name]
        done = compensation(WorkflowContext(ctx.instance_id), **kwargs)
        if inspect.isawaitable(done):
            await done


async def _note(ctx: Any) -> None:
    """A place in the history that something is remembered with."""


_compensate = EddaActivity(_compensate_all, name="edda.compensate")
_remember = EddaActivity(_note, name="edda.register")
_own += [_compensate, _remember]


async def _tell(hook: str, *about: Any) -> None:
    if _app is not None:
        await _app._tell(hook, *about)


class _EddaLoop(WorkflowLoop):
    """Tells whoever has started the instance when it waits for something that takes long."""

    waits = 0
    is_begun = False
    input: str = "{}"

    def uuid4(self) -> uuid.UUID:
        """A random UUID, the same whenever the code is replayed."""
        number = (self.run.random() << 64) | self.run.random()
        return uuid.UUID(int=number, version=4)

    def turn(self, outcomes: list[tuple[int, bool, str | None]], cancelled: str | None) -> Any:
        if not self.is_begun and not self.run.is_replaying:
            self._tell("on_workflow_start", json.loads(self.input))
        self.is_begun = True
        ended = super().turn(outcomes, cancelled)
        if ended is not None and not self.run.is_replaying:
            self._tell_end(*ended)
        parked = _parked.get(self.run.instance_id)
        if parked is not None and ended is None and self.waits and _app is not None:
            parked.waits = self.run.get(_WAITS) or "null"
            assert _app._loop is not None
            _app._loop.call_soon_threadsafe(parked.set)
        return ended


    def _tell_end(self, kind: int, text: str) -> None:
        if kind == RETURNED:
            self._tell("on_workflow_complete", json.loads(text))
        elif kind == FAILED:
            self._tell("on_workflow_failed", from_record(json.loads(text)))
        elif kind == CANCELLED:
            self._tell("on_workflow_cancelled")

    def _tell(self, hook: str, *about: Any) -> None:
        """Hooks run on the user's event loop, in this order; no turn waits for them."""
        app = _app
        if app is None or app.hooks is None or app._loop is None:
            return
        if self.workflow in _own_workflows:
            return
        about = (self.run.instance_id, self.run.workflow, *about)
        app._loop.call_soon_threadsafe(lambda: app._later(app._tell(hook, *about)))


class EddaWorkflow(Workflow[..., Any]):
    """A workflow in Edda's words."""

    _context = WorkflowContext
    event_handler = False

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        return True

    def make(self, run: Any, input: str) -> WorkflowLoop:
        loop = _EddaLoop(run, self)
        loop.input = input
        loop.begin(self.fn(WorkflowContext(run.instance_id, loop), **self.read(input)))
        return loop

    async def start(self, *args: Any, lock_timeout_seconds: int | None = None, **kwargs: Any) -> str:
        """Starts an instance, and goes on until it ends or waits for an event or a timer. Answers
        with its id, and raises what it failed with."""
        app = _the_app()
        id = f"{self.name}-{uuid.uuid4().hex}"
        parked = _parked[id] = _Parked()
        await app.start(id, self, *args, **kwargs)
        ended = asyncio.ensure_future(app.instance(id).result())
        waits = asyncio.ensure_future(parked.wait())
        try:
            await asyncio.wait([ended, waits], return_when=asyncio.FIRST_COMPLETED)
        finally:
            _parked.pop(id, None)
            waits.cancel()
        if ended.done():
            ended.result()
            return id
        ended.cancel()
        # Whoever looks now sees that it waits, unless it has gone on already.
        stored = app._ask(app._engine.wait_for, id, parked.waits, _WAITS)
        await asyncio.wait([stored], timeout=1)
        stored.cancel()
        return id


def _the_app() -> EddaApp:
    if _app is None:
        raise ResurgamError("there is no app: await EddaApp(...).initialize()")
    return _app


@overload
def activity(fn: F, /) -> F: ...
@overload
def activity(*, retry_policy: RetryPolicy | None = None) -> Callable[[F], F]: ...
def activity(fn: Any = None, /, *, retry_policy: RetryPolicy | None = None) -> Any:
    """Makes a function an activity. Without a policy it is tried five times."""

    def wrap(fn: Any) -> Any:
        policy = retry_policy._ours() if retry_policy is not None else None
        made = EddaActivity(fn, retry=policy)
        made.is_async = True  # a plain function runs on the event loop, as with Edda
        made.on_failure = getattr(fn, "_on_failure", None)
        _register(_define.ACTIVITIES, made.name, made)
        return made

    return wrap if fn is None else _define._wrapped(wrap, fn)


@overload
def workflow(fn: Fn, /) -> EddaWorkflow: ...
@overload
def workflow(
    *, event_handler: bool = False, lock_timeout_seconds: int | None = None
) -> Callable[[Fn], EddaWorkflow]: ...
def workflow(
    fn: Any = None, /, *, event_handler: bool = False, lock_timeout_seconds: int | None = None
) -> Any:
    """Makes an ``async def`` a workflow. With ``event_handler``, events of its name start it."""

    def wrap(fn: Any) -> Any:
        made = EddaWorkflow(fn)
        made.event_handler = event_handler
        _register(_define.WORKFLOWS, (made.name, 1), made)
        return made

    return wrap if fn is None else _define._wrapped(wrap, fn)


def compensation(fn: F) -> F:
    """Makes a function one that undoes something."""
    _compensations[fn.__name__] = fn
    return fn


def on_failure(undo: Fn) -> Callable[[F], F]:
    """Has this undo an activity when the workflow fails: it gets what it takes by name from the
    activity's arguments and from its result."""
    _compensations[undo.__name__] = undo

    def wrap(fn: Any) -> Any:
        if isinstance(fn, EddaActivity):
            fn.on_failure = undo
        else:
            fn._on_failure = undo
        return fn

    return wrap


async def register_compensation(
    ctx: WorkflowContext, undo: Any, activity_id: str | None = None, **kwargs: Any
) -> None:
    """Remembers what undoes the work so far, in a workflow or in an activity."""
    if isinstance(undo, EddaActivity):
        undo = undo.fn
    _compensations.setdefault(undo.__name__, undo)
    if ctx._loop is None:
        ctx._undo.append((undo.__name__, kwargs))
        return
    loop = ctx._loop
    made = _undoes([[undo.__name__, kwargs]])
    key = loop.run.call(_remember.name, "{}", None, lambda _: made)
    await loop.wait(key, json.loads)


def _loop_of(ctx: WorkflowContext) -> Any:
    if ctx._loop is None:
        raise ResurgamError("only a workflow can wait")
    return ctx._loop


async def sleep(ctx: WorkflowContext, seconds: float, timer_id: str | None = None) -> None:
    """Waits, across restarts."""
    loop = _loop_of(ctx)
    loop.waits += 1
    loop.run.set(_WAITS, json.dumps({"timer": seconds}))
    try:
        await asyncio.sleep(seconds)
    finally:
        loop.waits -= 1
        loop.run.set(_WAITS, "null")


async def sleep_until(ctx: WorkflowContext, until: Any, timer_id: str | None = None) -> None:
    """Waits until a time that has a zone."""
    await sleep(ctx, max(0.0, until.timestamp() - _loop_of(ctx).time()))


async def wait_event(
    ctx: WorkflowContext,
    event_type: str,
    timeout_seconds: float | None = None,
    model: Any = None,
    event_id: str | None = None,
) -> ReceivedEvent:
    """Waits for an event of this type."""
    loop = _loop_of(ctx)
    loop.waits += 1
    loop.run.set(_WAITS, json.dumps(event_type))
    try:
        signal = loop.wait(loop.run.signal(f"event:{event_type}"), json.loads)
        event = ReceivedEvent(**await asyncio.wait_for(signal, timeout_seconds))
    except TimeoutError:
        raise EventTimeoutError(
            f"no event {event_type} came within {timeout_seconds} seconds"
        ) from None
    finally:
        loop.waits -= 1
        loop.run.set(_WAITS, "null")
    if model is not None:
        convert = _codec.converter(model)
        event.data = event.data if convert is None else convert(event.data)
    return event


async def recur(ctx: WorkflowContext, **kwargs: Any) -> None:
    """Ends the run; the next one of the instance begins with these arguments, and subscribes
    anew."""
    _loop_of(ctx).run.set("edda.channels", "{}")
    made = _loop_of(ctx).workflow
    raise ContinueAsNew(made.pack((), _arguments(made, kwargs)))


class _Storage:
    """What the examples ask of Edda's storage."""

    def __init__(self, app: EddaApp):
        self._app = app

    async def get_instance(self, instance_id: str) -> dict[str, Any] | None:
        """An instance with its status and its output."""
        try:
            row = await self._app.describe(instance_id)
        except NotFound:
            return None
        output: Any = row.outcome
        if row.status == "completed":
            output = {"result": row.outcome}
        elif isinstance(row.outcome, dict):
            output = {"error_message": row.outcome.get("message"), "error_type": row.outcome.get("type")}
        status = {"running": "running", "blocked": "running", "terminated": "cancelled"}
        waits = await self._app.instance(instance_id).value(_WAITS)
        known = row.status
        if known == "running" and waits is not None:
            is_timer = isinstance(waits, dict) and "timer" in waits
            known = "waiting_for_timer" if is_timer else "waiting_for_message"
        return {
            "instance_id": row.id,
            "workflow_name": row.workflow,
            "status": status.get(known, known),
            "input_data": row.input,
            "output_data": output,
            "started_at": row.created_at.isoformat(),
        }


    async def get_pending_outbox_events(self, limit: int = 10) -> list[dict[str, Any]]:
        """Events that the broker has not taken yet."""
        rows = await self._app.list(status="running", workflow="edda.deliver", limit=limit)
        return [dict(row.input["event"]) for row in rows]


class EddaApp(App):
    """An app in Edda's words. It is an ASGI callable, too, to which CloudEvents are posted.

    What Edda has to say about connection pools, notifications and leader election has no effect:
    there is no such thing here.
    """

    def __init__(
        self,
        service_name: str,
        db_url: str,
        outbox_enabled: bool = False,
        broker_url: str | None = None,
        hooks: Any = None,
        default_retry_policy: RetryPolicy | None = None,
        message_retention_days: int = 7,
        pool_size: int = 5,
        max_overflow: int = 10,
        pool_timeout: int = 30,
        pool_recycle: int = 3600,
        pool_pre_ping: bool = True,
        use_listen_notify: bool | None = None,
        notify_fallback_interval: int = 30,
        max_workflows_per_batch: Any = 10,
        leader_heartbeat_interval: int = 15,
        leader_lease_duration: int = 45,
    ):
        url = db_url.replace("+asyncpg", "").replace("+aiosqlite", "").replace("+psycopg", "")
        policy = (default_retry_policy or RetryPolicy())._ours()
        super().__init__(url, retry=policy)
        if outbox_enabled and broker_url is None:
            raise ValueError("outbox_enabled=True needs a broker_url")
        self.service_name = service_name
        self.storage = _Storage(self)
        self.outbox_enabled, self.broker_url, self.hooks = outbox_enabled, broker_url, hooks
        self._telling: set[asyncio.Task[None]] = set()

    #: There is none to be asked: the engine replays by itself, and only what has not ended.
    replay_engine = None

    def _builder(self) -> Any:
        for made in _own:
            made.is_async = True
        known = [*_define.ACTIVITIES.values(), *_own]
        self._given = ([*_define.WORKFLOWS.values(), *_own_workflows], known)
        return super()._builder()

    async def _tell(self, hook: str, *about: Any) -> None:
        """Calls a hook, if there is one. What goes wrong in it is logged and changes nothing."""
        call = getattr(self.hooks, hook, None)
        if call is None:
            return
        try:
            await call(*about)
        except Exception:
            _log.exception("the hook %s has failed", hook)

    def _later(self, told: Any) -> None:
        task = asyncio.ensure_future(told)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def initialize(self) -> None:
        """Begins to work."""
        global _app
        await self.open()
        _app = self

    async def shutdown(self) -> None:
        """Stops."""
        await self.stop()
        if self._telling:
            await asyncio.wait(set(self._telling))

    async def cancel_workflow(self, instance_id: str) -> None:
        """Asks an instance to end; what it has done is undone."""
        await self.cancel(instance_id, "cancelled")

    async def handle_event(self, event: Any, instance_id: str | None = None) -> None:
        """Hands an event to the instances that wait for its type, or to one; events of the name of
        an event handler start it."""
        told = _event(event)
        for made in list(_define.WORKFLOWS.values()):
            if isinstance(made, EddaWorkflow) and made.event_handler and made.name == told.type:
                data = told.data if isinstance(told.data, dict) else {"data": told.data}
                values = _fitting(made.fn, _arguments(made, data))
                await self.start(f"{made.name}-{uuid.uuid4().hex}", made, **values)
        ids = [instance_id] if instance_id is not None else await self._waiting(told.type)
        for id in ids:
            await self.signal(id, f"event:{told.type}", told)
            await self._tell("on_event_received", id, told.type, told.data)

    handle_cloudevent = handle_event

    async def _waiting(self, event_type: str) -> list[str]:
        rows = await self.list(status="running", limit=10_000)
        return [r.id for r in rows if await self.instance(r.id).value(_WAITS) == event_type]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Takes CloudEvents over HTTP, and ``POST /cancel/{instance_id}``."""
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, answer = await self._respond(scope, body)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _respond(self, scope: Any, body: bytes) -> tuple[int, bytes]:
        status, answer = await self._answer(scope, body)
        return status, json.dumps(answer).encode()

    async def _lifespan(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.initialize()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.shutdown()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        if scope["method"] != "POST":
            return 405, {"error": "events are posted"}
        _, _, instance_id = scope["path"].partition("/cancel/")
        try:
            if instance_id:
                await self.cancel_workflow(instance_id)
                return 200, {"status": "cancelled", "instance_id": instance_id}
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            data = json.loads(body or b"null")
            if "ce-type" in headers:
                event = {n[3:]: v for n, v in headers.items() if n.startswith("ce-")}
                event["data"] = data
            else:
                event = data
            await self.handle_event(event, event.get("eddainstanceid"))
        except (ResurgamError, ValueError, KeyError, AttributeError, TypeError) as error:
            return 400, {"error": str(error)}
        return 202, {"status": "accepted"}


def _event(event: Any) -> ReceivedEvent:
    """An event of the ``cloudevents`` package, or a mapping."""
    if isinstance(event, dict):
        values = dict(event)
    else:
        values = {**dict(event.get_attributes()), "data": event.get_data()}
    names = {field.name for field in dataclasses.fields(ReceivedEvent)}
    known = {name: value for name, value in values.items() if name in names}
    known.setdefault("data", None)
    extensions = {k: v for k, v in values.items() if k not in names and k != "specversion"}
    return ReceivedEvent(**{**known, "extensions": extensions})


__all__ = [
    "ActivityError",
    "Cancelled",
    "EddaApp",
    "EventTimeoutError",
    "ReceivedEvent",
    "RetryExhaustedError",
    "RetryPolicy",
    "TerminalError",
    "WorkflowCancelledException",
    "WorkflowContext",
    "activity",
    "compensation",
    "on_failure",
    "recur",
    "register_compensation",
    "sleep",
    "sleep_until",
    "wait_event",
    "workflow",
]
