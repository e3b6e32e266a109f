"""Activities in a process without the engine: attempts come from a Resurgam server, over HTTP.

::

    from resurgam import activity
    from resurgam.remote import Worker

    @activity(timeout=10)
    async def charge(order: Order) -> Receipt: ...

    Worker("https://resurgam.internal").run()   # RESURGAM_TOKEN has the token

The activities are the same functions that an :class:`~resurgam.App` would run, with the same
annotations, exceptions and context. The workflows that call them run where the server works, in any
language.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import os
import secrets
import signal
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

from ._define import ACTIVITIES, Activity
from ._failures import ResurgamError

log = logging.getLogger("resurgam.remote")

_PROTOCOL = 1
_POLL_WAIT_MS = 20_000
# A server takes bodies of 16 MiB, and results of 2 MiB.
_LARGEST_REPORT = 14 << 20
_LARGEST_BATCH = 4 << 20
_MOST_REPORTS = 500
_OFFERED = {"retry", "timeout"}
_CANCELLED = '{"kind":"cancelled","message":"the attempt was cancelled"}'


class Refused(ResurgamError):
    """The server does not serve this worker, and asking again would change nothing: the token is
    wrong, an offer makes no sense, or the server is too new for this package."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Worker:
    """Asks a server for attempts, makes them, and reports how they ended.

    ``activities`` are those that it offers, all that were defined with ``@activity`` unless given.
    ``slots`` is how many attempts run at once, ``queues`` are those whose attempts it takes, all
    unless given. ``token`` is what the server asks for; ``RESURGAM_TOKEN`` has it otherwise.
    ``grace`` is how many seconds attempts may go on when the worker stops.
    """

    def __init__(
        self,
        url: str,
        *,
        activities: Iterable[Activity[..., Any]] | None = None,
        slots: int = 10,
        queues: Iterable[str] = (),
        token: str | None = None,
        grace: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
    ):
        if slots < 1:
            raise ValueError(f"slots={slots}: a worker without slots makes no attempts")
        offered = list(ACTIVITIES.values() if activities is None else activities)
        if not offered:
            raise ValueError("a worker without activities: define one with @activity first")
        self._activities = {one.name: one for one in offered}
        self._offers = [_offer(one) for one in offered]
        self._slots, self._queues, self._grace = slots, list(queues), grace
        token = os.environ.get("RESURGAM_TOKEN") if token is None else token
        self._server = _Server(url, token, ssl_context)
        self._state = threading.Condition()
        self._running: dict[str, _Attempt] = {}
        self._reports: list[tuple[str, str]] = []
        self._heartbeats: dict[str, str] = {}
        self._lease = 3.0  # until a poll has told
        self._is_stopping = False
        self._is_done = False
        self._refused: Refused | None = None

    def run(self) -> None:
        """Works until :meth:`stop` is called, or Ctrl-C, or SIGTERM where this is the main thread.
        Attempts that run then go on for ``grace`` seconds; what still runs after that is given
        back, to be run again elsewhere.

        Raises :class:`Refused` when the server refuses this worker.
        """
        with self._state:
            self._is_stopping = self._is_done = False
        loop = asyncio.new_event_loop()
        threads = [
            threading.Thread(target=_run_loop, args=(loop,), name="resurgam-remote-attempts"),
            threading.Thread(target=self._report, name="resurgam-remote-reports", daemon=True),
            threading.Thread(target=self._beat, name="resurgam-remote-beats", daemon=True),
        ]
        pool = concurrent.futures.ThreadPoolExecutor(self._slots, "resurgam-remote")
        for thread in threads:
            thread.daemon = True
            thread.start()
        before = self._listen()
        try:
            self._poll(loop, pool)
            self._drain()
        except KeyboardInterrupt:
            self.stop()
            self._drain()
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)
            self._end(loop, pool, threads)
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """Takes no more attempts. :meth:`run` returns when those that run have ended."""
        with self._state:
            self._is_stopping = True
            self._state.notify_all()

    def _listen(self) -> Any:
        """Has SIGTERM stop the worker. Answers with what it did before."""
        if threading.current_thread() is not threading.main_thread():
            return None
        return signal.signal(signal.SIGTERM, lambda *_: self.stop())

    # Attempts.

    def _poll(self, loop: asyncio.AbstractEventLoop, pool: concurrent.futures.Executor) -> None:
        while True:
            with self._state:
                self._state.wait_for(
                    lambda: self._is_stopping or len(self._running) < self._slots
                )
                if self._is_stopping:
                    return
                running = list(self._running)
            told = self._ask(
                "poll",
                activities=self._offers,
                queues=self._queues,
                max=self._slots - len(running),
                wait_ms=_POLL_WAIT_MS,
                running=running,
            )
            if told is None:
                continue
            self._lease = float(told.get("lease_ms", 30_000)) / 1000
            for task in told.get("tasks", []):
                self._begin(task, loop, pool)

    def _begin(
        self, task: dict[str, Any], loop: asyncio.AbstractEventLoop, pool: concurrent.futures.Executor
    ) -> None:
        name, made = str(task["task"]), _Attempt(self, task)
        with self._state:
            if name in self._running:
                return
            self._running[name] = made
        activity, text = self._activities[task["activity"]], json.dumps(task["input"])
        if activity.is_async:
            made.future = asyncio.run_coroutine_threadsafe(
                activity.attempt(_Clock, made, 0, text, made), loop
            )
            made.future.add_done_callback(made.lost)
        else:
            pool.submit(made.run_plain, activity, text)

    def _ended(self, task: str, report: str) -> None:
        """A report, which is sent until it is answered. The attempt keeps its slot until then."""
        with self._state:
            attempt = self._running.get(task)
            if attempt is None or attempt.is_reported:
                return
            attempt.is_reported = True
            self._heartbeats.pop(task, None)
            self._reports.append((task, report))
            self._state.notify_all()

    def _told(self, task: str, details: str) -> None:
        """A heartbeat: of several that wait to be sent the last one counts."""
        with self._state:
            attempt = self._running.get(task)
            if attempt is not None and not attempt.is_reported:
                self._heartbeats[task] = details
                self._state.notify_all()

    def _over(self, tasks: Iterable[str]) -> None:
        for task in tasks:
            attempt = self._running.get(task)
            if attempt is not None:
                attempt.cancel()

    # Reports and beats.

    def _report(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(
                    lambda: self._is_done or bool(self._reports) or bool(self._heartbeats)
                )
                if self._is_done and not self._reports:
                    return
                batch, beats = self._take_reports(), self._heartbeats
                self._heartbeats = {}
            written = [f'{{"task":{json.dumps(task)},{report}}}' for task, report in batch]
            written += [
                f'{{"task":{json.dumps(task)},"heartbeat":{details}}}'
                for task, details in beats.items()
            ]
            told = self._ask_text("report", f'"reports":[{",".join(written)}]')
            if told is None:
                return
            over = set(told.get("over", ()))
            done = over.union(told.get("recorded", ()))
            self._over(over.intersection(beats))
            with self._state:
                for task, report in batch:
                    if task in done:
                        self._running.pop(task, None)
                    else:
                        self._reports.append((task, report))
                self._state.notify_all()

    def _take_reports(self) -> list[tuple[str, str]]:
        size = taken = 0
        for _, report in self._reports[:_MOST_REPORTS]:
            size += len(report)
            if taken and size > _LARGEST_BATCH:
                break
            taken += 1
        batch, self._reports = self._reports[:taken], self._reports[taken:]
        return batch

    def _beat(self) -> None:
        """Says that the worker is there, also while every slot is taken and nobody polls."""
        while True:
            with self._state:
                self._state.wait_for(
                    lambda: self._is_done or self._is_stopping, timeout=self._lease / 3
                )
                if self._is_done:
                    return
                running, is_stopping = list(self._running), self._is_stopping
            if is_stopping:
                # A newer poll ends the one that waits.
                self._ask("poll", activities=self._offers, max=0, wait_ms=0, running=running)
                with self._state:
                    self._state.wait_for(lambda: self._is_done, timeout=self._lease / 3)
            told = self._ask("beat", running=running)
            self._over(() if told is None else told.get("over", ()))

    def _ask(self, what: str, **body: Any) -> dict[str, Any] | None:
        return self._ask_text(what, json.dumps(body)[1:-1])

    def _ask_text(self, what: str, body: str) -> dict[str, Any] | None:
        """Asks until there is an answer: a report must not be lost with a connection. ``None`` when
        there will be none, or nobody waits for it."""
        pause = 0.1
        while True:
            try:
                told = self._server.ask(what, body)
                self._over(told.get("cancel", ()))
                return told
            except Refused as refused:
                with self._state:
                    self._refused = self._refused or refused
                    self._is_stopping = self._is_done = True
                    self._state.notify_all()
                return None
            except _Away as away:
                log.warning("%s does not answer, and is asked again: %s", self._server.url, away)
            with self._state:
                if self._is_done or (self._is_stopping and what != "report"):
                    return None
                spread = 0.5 + secrets.randbelow(500) / 1000
                self._state.wait_for(lambda: self._is_done, timeout=pause * spread)
            pause = min(pause * 2, 5.0)

    # The end.

    def _drain(self) -> None:
        """Waits for attempts that run, and gives back those that take too long."""
        with self._state:
            if self._state.wait_for(self._is_idle, timeout=self._grace):
                return
            left = [name for name, attempt in self._running.items() if not attempt.is_reported]
        for task in left:
            log.warning("the attempt %s is cut short, and runs again elsewhere", task)
            self._ended(task, '"interrupted":true')
        with self._state:
            self._state.wait_for(self._is_idle, timeout=self._grace)

    def _is_idle(self) -> bool:
        return self._is_done or not self._running

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: concurrent.futures.ThreadPoolExecutor,
        threads: list[threading.Thread],
    ) -> None:
        with self._state:
            self._is_stopping = self._is_done = True
            self._state.notify_all()
        pool.shutdown(wait=False, cancel_futures=True)
        loop.call_soon_threadsafe(loop.stop)
        for thread in threads:
            thread.join(timeout=5)


class _Attempt:
    """One attempt, as the contexts of activities know it, and where its outcome goes."""

    def __init__(self, worker: Worker, task: dict[str, Any]):
        self._worker, self._task = worker, task
        self.name = str(task["task"])
        self.attempt = task["attempt"]
        self.instance_id = task["instance"]
        self.activity = task["activity"]
        self.idempotency_key = task["idempotency_key"]
        self.is_cancelled = False
        self.is_reported = False
        self.future: concurrent.futures.Future[None] | None = None
        timeout = task.get("timeout_ms")
        self._deadline = None if timeout is None else time.time() + timeout / 1000

    def deadline(self) -> float | None:
        return self._deadline

    def fallback_of(self) -> str | None:
        return None

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> float:
        return seconds

    def last_heartbeat(self) -> str | None:
        told = self._task.get("last_heartbeat")
        return None if told is None else json.dumps(told)

    def heartbeat(self, details: str) -> str | None:
        if self.is_cancelled:
            return _CANCELLED
        self._worker._told(self.name, details)
        return None

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.future is not None:
                self.future.cancel()

    def run_plain(self, activity: Activity[..., Any], input: str) -> None:
        is_done, text = activity.attempt_plain(input, self)
        self.complete(0, text) if is_done else self.fail(0, text)

    def lost(self, future: concurrent.futures.Future[None]) -> None:
        """The attempt was cancelled before it began, so it said nothing."""
        if future.cancelled():
            self._worker._ended(self.name, '"cancelled":true')

    def complete(self, _: int, result: str) -> None:
        if len(result) > _LARGEST_REPORT:
            message = f"a result of {len(result)} bytes is too large for a report"
            self.fail(0, json.dumps({"type": "BadOutput", "message": message, "retryable": False}))
            return
        self._worker._ended(self.name, f'"result":{result}')

    def fail(self, _: int, failure: str) -> None:
        record = json.loads(failure)
        if record.get("kind") == "cancelled":
            report = '"cancelled":true'
        elif "snooze_ms" in record:
            report = f'"snooze":"{record["snooze_ms"]}ms"'
        else:
            report = f'"failure":{json.dumps(_failure(record))}'
        self._worker._ended(self.name, report)


class _Clock:
    """What the context of an attempt asks of an app: to sleep."""

    @staticmethod
    async def _ask(sleep: Callable[[float], float], seconds: float, port_first: bool) -> None:
        await asyncio.sleep(sleep(seconds))


class _Away(Exception):
    """There is no server just now, or it has too much to do."""


class _Server:
    def __init__(self, url: str, token: str | None, ssl_context: ssl.SSLContext | None):
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r}: write the server's address, such as http://127.0.0.1:8460")
        self.url, self._ssl = url.rstrip("/"), ssl_context
        self._session = secrets.token_hex(16)
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token.strip()}"

    def ask(self, what: str, body: str) -> dict[str, Any]:
        session = json.dumps(self._session)
        text = f'{{"protocol":{_PROTOCOL},"session":{session},{body}}}'
        request = urllib.request.Request(
            f"{self.url}/api/v1/worker/{what}", text.encode(), self._headers
        )
        try:
            with urllib.request.urlopen(request, timeout=90, context=self._ssl) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")
            if error.code == 429 or error.code >= 500:
                raise _Away(f"{error.code} {detail:.300}") from None
            raise Refused(error.code, f"{self.url} refuses {what}: {error.code} {detail}") from None
        except (OSError, ValueError) as error:
            raise _Away(str(error)) from None
        if not isinstance(told, dict):
            raise _Away(f"{told!r:.100} is no answer")
        return told


def _offer(activity: Activity[..., Any]) -> dict[str, Any]:
    """What a worker says of an activity."""
    if not isinstance(activity, Activity):
        raise TypeError(f"{activity!r:.80} is no activity: define it with @activity")
    unknown = sorted(set(activity.defaults) - _OFFERED)
    if unknown:
        raise ValueError(
            f"{activity.name}: a remote worker offers retry and timeout, and not "
            f"{', '.join(unknown)}: let the calls of the workflow say that"
        )
    offer: dict[str, Any] = {"name": activity.name}
    if "retry" in activity.defaults:
        offer["retry"] = activity.defaults["retry"]
    if "timeout" in activity.defaults:
        offer["timeout"] = f"{round(activity.defaults['timeout'] * 1000)}ms"
    return offer


def _failure(record: dict[str, Any]) -> dict[str, Any]:
    """A recorded failure as a report has it."""
    names = ("type", "mro", "message", "code", "retryable", "details")
    failure = {name: record[name] for name in names if record.get(name) is not None}
    if record.get("retry_after_ms") is not None:
        failure["retry_after"] = f"{record['retry_after_ms']}ms"
    return failure


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


__all__ = ["Refused", "Worker"]
