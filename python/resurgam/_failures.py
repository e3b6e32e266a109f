"""Exceptions as recorded failures, and back.

An exception of an activity is recorded with its class, its arguments and its attributes, as JSON
and never as a pickle. The workflow gets an exception of the same class, the first time and whenever
it is replayed. A class is looked for only in packages that were loaded when the app opened, so that
a record cannot make a process import anything else; where it is not found, the workflow gets an
:class:`ActivityError`, which has everything to read.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import importlib
import json
import sys
import types
import uuid
from collections.abc import Iterator
from typing import Any

from . import _codec

Record = dict[str, Any]


class ResurgamError(Exception):
    """Anything that the engine or this package raises."""

    code: str = ""


class AlreadyExists(ResurgamError):
    """An instance of this id was started before; see the option ``if_exists``."""


class NotFound(ResurgamError):
    """There is no such instance, call or schedule."""


class AlreadyClosed(ResurgamError):
    """The instance is over: it takes no signals and cannot be cancelled."""


class InvalidRequest(ResurgamError):
    """What was asked for makes no sense; the message says why."""


class Blocked(ResurgamError):
    """An instance in a test cannot go on until its code is mended; the message says why."""


class NotInWorkflow(ResurgamError):
    """Something that only a workflow can do was done elsewhere."""


class NotDurable(BaseException):
    """A workflow waits for something that the engine cannot wait for. The run is blocked until its
    code is mended. It is no ``Exception``, so that code which retries everything lets it through."""


class TerminalError(ResurgamError):
    """Raised by an activity: never try again. Subclass it for failures of your own, or raise it
    ``from`` the exception that says what happened."""


class RetryAfter(ResurgamError):
    """Raised by an activity: the other side wants to be asked again after this time, in seconds.

    It is a failure and counts as one; the policy bounds the time by ``server_delay``.
    """

    def __init__(self, delay: float | dt.timedelta, message: str = "asked to come back later"):
        super().__init__(message)
        self.delay = seconds(delay)


class Snooze(ResurgamError):
    """Raised by an activity: run me again after this time. That is no failure and counts as none."""

    def __init__(self, delay: float | dt.timedelta):
        super().__init__("snoozed")
        self.delay = seconds(delay)


class ActivityError(ResurgamError):
    """A recorded failure: of an activity call, of a child, or of a whole instance.

    Where the class of the original exception is known, that is raised, and this is what
    :func:`failure_of` finds on it.
    """

    def __init__(self, record: Record):
        self.record = record
        name = record.get("type") or record.get("kind", "error")
        super().__init__(f"{name}: {record.get('message', '')}")

    def __reduce__(self) -> Any:
        return (type(self), (self.record,))

    @property
    def type(self) -> str | None:
        """The name of the exception's class."""
        return self.record.get("type")

    @property
    def kind(self) -> str:
        """What kind of failure it was: ``error``, ``timeout``, ``cancelled``, ..."""
        return str(self.record.get("kind", "error"))

    @property
    def message(self) -> str:
        """What the exception said."""
        return str(self.record.get("message", ""))

    @property
    def attempts(self) -> int | None:
        """How many attempts were made."""
        return self.record.get("attempts")

    @property
    def why(self) -> str | None:
        """Why no other attempt followed, such as ``max_attempts`` or ``non_retryable``."""
        return self.record.get("why")

    @property
    def details(self) -> Any:
        """What else was recorded, as JSON."""
        return self.record.get("details")


class TimedOut(ActivityError, TimeoutError):
    """A timeout of the engine ended a call or an instance."""


class Cancelled(ActivityError):
    """The instance was cancelled."""


class Terminated(ActivityError):
    """The instance was ended where it stood."""


def seconds(time: float | dt.timedelta) -> float:
    """A time in seconds."""
    return time.total_seconds() if isinstance(time, dt.timedelta) else float(time)


def failure_of(error: BaseException) -> ActivityError | None:
    """What was recorded about an exception that a workflow or a caller got: how many attempts there
    were, and why no other one followed."""
    if isinstance(error, ActivityError):
        return error
    cause = error.__cause__
    return cause if isinstance(cause, ActivityError) else None


_packages: set[str] = set()


def note_packages() -> None:
    """From now on classes are looked for in packages that are loaded now."""
    _packages.update(name.partition(".")[0] for name in list(sys.modules))


def path_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def find_class(path: str) -> Any:
    """A class by its path; ``None`` where it is not found."""
    module_name, _, name = path.partition(":")
    if module_name.partition(".")[0] not in _packages:
        return None
    try:
        found: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


# Values on exceptions have no annotations: the few classes that are common say what they are.

_TAG = "$resurgam"


def _tagged(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)) and not isinstance(value, enum.Enum):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, enum.Enum):
        return {_TAG: "enum", "class": path_of(type(value)), "name": value.name}
    if type(value) in (int, float):
        return _codec.plain(value)
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if isinstance(value, tuple):
        return {_TAG: "tuple", "items": [_tagged(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        items = sorted((_tagged(item) for item in value), key=json.dumps)
        return {_TAG: type(value).__name__, "items": items}
    if isinstance(value, dict):
        made = {key: _tagged(item) for key, item in value.items() if isinstance(key, str)}
        if len(made) != len(value):
            raise TypeError("keys are texts")
        return made
    for name, (cls, write, _) in _SCALARS.items():
        if type(value) is cls:
            return {_TAG: name, "value": write(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_TAG: "object", "class": path_of(type(value)), "value": _codec.plain(value)}
    if hasattr(value, "model_dump"):
        return {_TAG: "object", "class": path_of(type(value)), "value": _codec.plain(value)}
    return _codec.plain(value)


_SCALARS: dict[str, tuple[type, Any, Any]] = {
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "timedelta": (
        dt.timedelta, dt.timedelta.total_seconds, lambda value: dt.timedelta(seconds=value)
    ),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "bytes": (bytes, _codec.plain, _codec._bytes),
}


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(_TAG)
    if tag is None:
        return {key: _untagged(item) for key, item in value.items()}
    if tag in _SCALARS:
        return _SCALARS[tag][2](value["value"])
    if tag in ("tuple", "set", "frozenset"):
        items = [_untagged(item) for item in value["items"]]
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
    cls = find_class(value.get("class", ""))
    if cls is None:
        return value.get("value", value.get("name"))
    if tag == "enum":
        return cls[value["name"]]
    convert = _codec.converter(cls)
    return value["value"] if convert is None else convert(value["value"])


def _told(value: Any) -> Any:
    """A value of an exception, or how it looks where it has no JSON form."""
    try:
        return _tagged(value)
    except Exception:
        return repr(value)


def to_record(error: BaseException) -> Record:
    """An exception as a failure."""
    if isinstance(error, ActivityError):
        return error.record
    cause = error.__cause__
    if isinstance(cause, ActivityError) and cause.type == type(error).__name__:
        return cause.record  # it was recorded before, with how often it was tried
    cls = type(error)
    details: Record = {"py": path_of(cls), "args": [_told(arg) for arg in error.args]}
    fields = {k: _told(v) for k, v in vars(error).items() if not k.startswith("_")}
    fields.update((name, _told(value)) for name, value in _built_in(error))
    if fields:
        details["fields"] = fields
    record: Record = {
        "kind": "error",
        "type": cls.__name__,
        "mro": [c.__name__ for c in cls.__mro__ if c is not object],
        "message": _message(error),
        "details": details,
    }
    if isinstance(error, BaseExceptionGroup):
        leaves = [to_record(leaf) for leaf in error.exceptions]
        details.update(args=[error.message], exceptions=leaves)
        if all(leaf.get("retryable") is False for leaf in leaves):
            record["retryable"] = False
    if isinstance(error, TerminalError):
        record["retryable"] = False
    elif isinstance(error, RetryAfter):
        record.update(kind="throttled", retry_after_ms=round(error.delay * 1000))
    elif isinstance(error, Snooze):
        record["snooze_ms"] = round(error.delay * 1000)
    code = getattr(error, "code", None) or getattr(error, "status_code", None)
    if isinstance(code, (int, str)) and not isinstance(code, bool) and code:
        record["code"] = str(code)
    if cause is not None:
        record["cause"] = to_record(cause)
    return record


def _built_in(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What exceptions of Python itself know beside their arguments, such as a file's name."""
    if isinstance(error, BaseExceptionGroup):
        return
    for cls in type(error).__mro__:
        if cls.__module__ != "builtins" or cls in (BaseException, Exception, object):
            continue
        for name, kind in vars(cls).items():
            is_data = isinstance(kind, (types.MemberDescriptorType, types.GetSetDescriptorType))
            value = getattr(error, name, None) if is_data else None
            if value is not None and not name.startswith("_"):
                yield name, value


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as problem:
        text = f"(its text cannot be made: {problem!r})"
    if not text and isinstance(error, asyncio.CancelledError):
        text = "something that the activity awaited was cancelled"
    return text.encode("utf-8", "replace").decode()


def from_record(record: Record) -> BaseException:
    """What a workflow or a caller raises for a recorded failure."""
    kind = str(record.get("kind", "error"))
    if kind.endswith("timeout"):
        return _caused(TimedOut(record), record)
    if kind == "cancelled":
        return _caused(Cancelled(record), record)
    failure = _caused(ActivityError(record), record)
    details = record.get("details")
    path = details.get("py") if isinstance(details, dict) else None
    if not isinstance(details, dict) or not isinstance(path, str):
        return failure
    cls = find_class(path)
    if cls is None or not issubclass(cls, Exception) or issubclass(cls, ActivityError):
        return failure
    error = _remade(cls, details)
    if error is None:
        return failure
    error.__cause__ = failure
    error.__suppress_context__ = True
    return error


def _remade(cls: Any, details: Record) -> BaseException | None:
    """An exception of this class, without running its ``__init__``: that may need what it no longer
    has."""
    try:
        if issubclass(cls, BaseExceptionGroup):
            leaves = [from_record(leaf) for leaf in details.get("exceptions", [])]
            error: BaseException = cls.__new__(cls, details["args"][0], leaves)
        else:
            args = tuple(_untagged(arg) for arg in details.get("args") or ())
            error = cls.__new__(cls, *args)
            error.args = args
        for name, value in (details.get("fields") or {}).items():
            setattr(error, name, _untagged(value))
    except Exception:
        return None
    return error


def _caused(error: ActivityError, record: Record) -> ActivityError:
    cause = record.get("cause")
    if isinstance(cause, dict):
        error.__cause__ = from_record(cause)
    return error


def dump(error: BaseException) -> str:
    """An exception as the text of a failure."""
    return json.dumps(to_record(error))


_ERRORS: dict[str, type[ResurgamError]] = {
    "already_exists": AlreadyExists,
    "not_found": NotFound,
    "closed": AlreadyClosed,
    "invalid": InvalidRequest,
    "too_large": InvalidRequest,
}


def answer_error(text: str) -> BaseException:
    """The exception for an answer of the engine that is an error."""
    try:
        told = json.loads(text)
    except ValueError:
        return ResurgamError(text)
    if not isinstance(told, dict):
        return ResurgamError(text)
    if "failure" in told:
        record = told["failure"]
        if told["outcome"] == "terminated":
            return _caused(Terminated(record), record)
        if told["outcome"] == "cancelled":
            return _caused(Cancelled(record), record)
        return from_record(record)
    error = _ERRORS.get(str(told.get("error")), ResurgamError)(told.get("message", text))
    error.code = str(told.get("code", ""))
    return error
