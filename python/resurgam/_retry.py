"""Retry policies: the whole policy of the engine, checked by the engine.

See the guide on retries for what each field means; the names here are those of the JSON form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from . import _native

Time = float | int | timedelta | str


def _time(time: Time) -> str:
    """A time as the JSON form has it. Numbers are seconds."""
    if isinstance(time, str):
        return time
    if isinstance(time, timedelta):
        time = time.total_seconds()
    return f"{round(time * 1000)}ms"


def _names(errors: tuple[type[BaseException] | str, ...]) -> list[str]:
    return [error if isinstance(error, str) else error.__name__ for error in errors]


class RetryPolicy:
    """When a failed attempt is tried again, and when not any more.

    Three ways to write the same::

        RetryPolicy.exponential(0.2).max_attempts(8).max_delay(30).never_for(CardDeclined)
        RetryPolicy(backoff={"type": "exponential", "initial": "200ms"}, max_attempts=8,
                    max_delay=30, never_for=[CardDeclined])
        RetryPolicy.from_json({"backoff": {"type": "exponential", "initial": "200ms"},
                               "max_attempts": 8, "max_delay": "30s",
                               "never_for": ["CardDeclined"]})

    Times are seconds, ``timedelta`` or texts such as ``"1m 30s"``. A policy that makes no sense is
    refused where it is written, with everything that is wrong with it. Policies do not change:
    every method answers with another one.
    """

    __slots__ = ("_fields",)

    def __init__(self, **fields: Any):
        made = {name: _json(name, value) for name, value in fields.items() if value is not None}
        _native.check_policy(json.dumps(made))
        self._fields: dict[str, Any] = made

    # How long to wait.

    @classmethod
    def exponential(cls, initial: Time, multiplier: float = 2.0) -> RetryPolicy:
        """Waits ``initial`` after the first failure, and ``multiplier`` times longer after each."""
        backoff = {"type": "exponential", "initial": _time(initial), "multiplier": multiplier}
        return cls(backoff=backoff)

    @classmethod
    def fixed(cls, delay: Time) -> RetryPolicy:
        """Waits the same time after every failure."""
        return cls(backoff={"type": "fixed", "delay": _time(delay)})

    @classmethod
    def linear(cls, initial: Time, increment: Time) -> RetryPolicy:
        """Waits ``initial`` after the first failure, and ``increment`` longer after each."""
        backoff = {"type": "linear", "initial": _time(initial), "increment": _time(increment)}
        return cls(backoff=backoff)

    @classmethod
    def once(cls) -> RetryPolicy:
        """Never tries again."""
        return cls(max_attempts=1)

    @classmethod
    def named(cls, name: str) -> RetryPolicy:
        """A policy that others have made known: ``default``, ``aws.standard``, ``grpc``, ``river``,
        ``sidekiq``, ``edda.default``, ..."""
        return cls(**json.loads(_native.check_policy(json.dumps(name))))

    @classmethod
    def from_json(cls, policy: Mapping[str, Any] | str) -> RetryPolicy:
        """The policy in its JSON form, as a mapping or a text."""
        return cls(**(json.loads(policy) if isinstance(policy, str) else policy))

    @classmethod
    def from_dialect(cls, dialect: str, config: Mapping[str, Any]) -> RetryPolicy:
        """A policy in the words of another system: ``edda``, ``rappel_py``, ``duroxide``,
        ``cadence``, ``exosphere``. Foreign words mean what they mean there: three ``max_retries``
        are four attempts."""
        text, _notes = _native.import_policy(dialect, json.dumps(config, default=_foreign))
        return cls(**json.loads(text))

    # When to stop.

    def max_attempts(self, attempts: int | None) -> RetryPolicy:
        """At most this many attempts, the first included; ``None`` for no bound."""
        return self._with(max_attempts="unlimited" if attempts is None else attempts)

    def max_delay(self, time: Time) -> RetryPolicy:
        """No delay is longer than this."""
        return self._with(max_delay=_time(time))

    def max_elapsed(self, time: Time) -> RetryPolicy:
        """No attempt begins later than this after the call was made."""
        return self._with(max_elapsed=_time(time))

    def timeouts(
        self,
        *,
        attempt: Time | None = None,
        heartbeat: Time | None = None,
        queue: Time | None = None,
        total: Time | None = None,
    ) -> RetryPolicy:
        """Bounds one attempt, its silence, the wait for a worker, and the whole call."""
        given = {"attempt": attempt, "heartbeat": heartbeat, "queue": queue, "total": total}
        return self._with(timeouts={n: _time(time) for n, time in given.items() if time is not None})

    def jitter(self, jitter: Any) -> RetryPolicy:
        """How delays are spread: ``"full"``, ``"equal"``, ``"none"``, or as in the JSON form."""
        return self._with(jitter=jitter)

    def never_for(self, *errors: type[BaseException] | str) -> RetryPolicy:
        """Failures of these classes, and of their subclasses, are never tried again."""
        return self._with(never_for=_names(errors))

    def rules(self, *rules: Mapping[str, Any]) -> RetryPolicy:
        """What holds for some failures: each a match, and a policy or an end for what it matches, in
        the JSON form. The first that matches decides."""
        return self._with(rules=list(rules))

    def otherwise(self, verdict: Any) -> RetryPolicy:
        """What becomes of failures that no rule matches."""
        return self._with(otherwise=verdict)

    def on_exhausted(self, then: Any) -> RetryPolicy:
        """What follows when retrying has stopped: fail, pause the call, or call another activity."""
        return self._with(on_exhausted=then)

    def at_most_once(self) -> RetryPolicy:
        """An attempt whose process died is not made again: it may have taken effect."""
        return self._with(idempotency="at_most_once")

    def _with(self, **fields: Any) -> RetryPolicy:
        return RetryPolicy(**{**self._fields, **fields})

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as far as it was written."""
        return dict(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RetryPolicy) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(json.dumps(self._fields, sort_keys=True))

    def __repr__(self) -> str:
        return f"RetryPolicy({', '.join(f'{k}={v!r}' for k, v in self._fields.items())})"


def _json(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return _time(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and name in _TIMES:
        return _time(value)
    if isinstance(value, type) and issubclass(value, BaseException):
        return value.__name__
    if isinstance(value, (list, tuple)):
        return [_json("", item) for item in value]
    if isinstance(value, Mapping):
        return {key: _json(key, item) for key, item in value.items()}
    return value


_TIMES = {"max_delay", "max_elapsed", "initial", "delay", "increment"}


def _foreign(value: Any) -> Any:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{value!r} has no place in a policy")


def policy_json(policy: RetryPolicy | Mapping[str, Any]) -> dict[str, Any]:
    """A policy, however it was written, in its JSON form."""
    made = policy if isinstance(policy, RetryPolicy) else RetryPolicy.from_json(policy)
    return made.to_json()
