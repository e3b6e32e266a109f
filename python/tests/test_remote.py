"""Activities in a process without the engine."""

from __future__ import annotations

import asyncio
import dataclasses
import http.server
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any

from resurgam import ActivityContext, RetryAfter, RetryPolicy, Snooze, TerminalError
from resurgam._define import Activity
from resurgam.remote import Refused, Worker

# The longest wait for anything that comes.
PATIENCE = 60.0


@dataclasses.dataclass
class Order:
    id: str
    cents: int


def offered(fn: Any, **options: Any) -> Activity[..., Any]:
    """An activity of this test only."""
    return Activity(fn, **options)


class Server:
    """A server that says what the test wants: each kind of request is answered by a function."""

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.asked: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.reported: queue.Queue[dict[str, Any]] = queue.Queue()
        self.authorizations: set[str | None] = set()
        self.cancel: list[str] = []
        self.failing: list[int] = []
        self.is_lost = 0
        self._given: set[str] = set()
        self._newer = threading.Condition()
        self._poll = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.authorizations.add(self.headers["Authorization"])
                status, told = outer.answer(self.path.rpartition("/")[2], body)
                text = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def give(self, task: str, activity: str, input: Any, **more: Any) -> None:
        told = {
            "task": task, "activity": activity, "attempt": 1, "instance": "order-1", "input": input,
            "queue": "default", "idempotency_key": f"key-{task}", "last_heartbeat": None,
            "timeout_ms": None, **more,
        }
        with self._newer:
            self.tasks.append(told)
            self._newer.notify_all()

    def answer(self, what: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.put((what, body))
        if self.failing:
            return self.failing.pop(0), {"detail": "not now"}
        if what == "poll":
            return 200, self._polled(body)
        if what == "beat":
            return 200, {"cancel": self.cancel, "over": []}
        return 200, self._reported(body["reports"])

    def _polled(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._newer:
            self._poll += 1
            mine = self._poll
            self._newer.notify_all()
            if body["wait_ms"]:
                self._newer.wait_for(lambda: bool(self.tasks) or self._poll != mine, PATIENCE)
            taken, self.tasks = self.tasks[: body["max"]], self.tasks[body["max"]:]
        return {"tasks": taken, "cancel": self.cancel, "lease_ms": 300}

    def _reported(self, reports: list[dict[str, Any]]) -> dict[str, Any]:
        ended = [report for report in reports if "heartbeat" not in report]
        if ended and self.is_lost:
            self.is_lost -= 1
            return {"recorded": [], "over": [], "cancel": []}
        for report in reports:
            self.reported.put(report)
        recorded = [report["task"] for report in reports]
        return {"recorded": recorded, "over": [], "cancel": self.cancel}

    def report(self) -> dict[str, Any]:
        return self.reported.get(timeout=PATIENCE)


class Remote(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)

    def work(self, *activities: Activity[..., Any], **options: Any) -> Worker:
        """A worker that runs until the end of the test."""
        worker = Worker(self.server.url, activities=activities, **options)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()

        def end() -> None:
            worker.stop()
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive(), "the worker has not stopped")

        self.addCleanup(end)
        return worker

    def test_arguments_and_results_are_read_by_annotation_in_both_kinds_of_functions(self) -> None:
        async def charge(order: Order) -> Order:
            return Order(order.id, order.cents + 1)

        def total(ctx: ActivityContext, orders: list[Order]) -> str:
            return f"{sum(order.cents for order in orders)} {ctx.instance_id} {ctx.idempotency_key}"

        self.work(offered(charge, retry=RetryPolicy.fixed(1), timeout=2.5), offered(total))
        self.server.give("a", "charge", {"order": {"id": "x", "cents": 1}})
        self.assertEqual(self.server.report(), {"task": "a", "result": {"id": "x", "cents": 2}})
        self.server.give("b", "total", {"orders": [{"id": "x", "cents": 3}]})
        self.assertEqual(self.server.report(), {"task": "b", "result": "3 order-1 key-b"})
        what, body = self.server.asked.get(timeout=PATIENCE)
        self.assertEqual((what, body["protocol"], body["max"]), ("poll", 1, 10))
        charge_offer, total_offer = body["activities"]
        self.assertEqual((charge_offer["name"], charge_offer["timeout"]), ("charge", "2500ms"))
        self.assertIn("retry", charge_offer)
        self.assertEqual(total_offer, {"name": "total"})

    def test_exceptions_are_failures_that_policies_can_match(self) -> None:
        class Busy(ConnectionError):
            code = "busy"

        async def ask(what: str) -> None:
            raise {
                "busy": Busy("later"),
                "never": TerminalError("declined"),
                "wait": RetryAfter(5, "slow down"),
                "snooze": Snooze(30),
            }[what]

        self.work(offered(ask))
        told = {}
        for what in ("busy", "never", "wait", "snooze", "unknown"):
            self.server.give(what, "ask", {"what": what})
            told[what] = self.server.report()
        busy = told["busy"]["failure"]
        self.assertEqual((busy["type"], busy["code"], busy["message"]), ("Busy", "busy", "later"))
        self.assertEqual(busy["mro"][:2], ["Busy", "ConnectionError"])
        self.assertIs(told["never"]["failure"]["retryable"], False)
        self.assertEqual(told["wait"]["failure"]["retry_after"], "5000ms")
        self.assertEqual(told["snooze"], {"task": "snooze", "snooze": "30000ms"})
        self.assertEqual(told["unknown"]["failure"]["type"], "KeyError")

    def test_a_heartbeat_is_told_and_the_next_attempt_reads_it(self) -> None:
        def copy(ctx: ActivityContext, upto: int) -> int:
            begun: int = ctx.last_heartbeat(int) or 0
            ctx.heartbeat(begun + upto)
            return begun

        self.work(offered(copy))
        self.server.give("a", "copy", {"upto": 3}, last_heartbeat=4)
        self.assertEqual(self.server.report()["result"], 4)

    def test_a_report_that_is_not_stored_is_sent_again(self) -> None:
        async def one() -> int:
            return 1

        self.server.is_lost = 2
        self.server.failing = [503, 500, 429]
        self.work(offered(one), slots=1)
        self.server.give("a", "one", {})
        self.assertEqual(self.server.report(), {"task": "a", "result": 1})
        self.server.give("b", "one", {})
        self.assertEqual(self.server.report(), {"task": "b", "result": 1})

    def test_an_attempt_that_is_told_to_end_ends(self) -> None:
        began: queue.Queue[str] = queue.Queue()

        async def sleep() -> None:
            began.put("sleep")
            await asyncio.sleep(3600)

        def spin(ctx: ActivityContext) -> None:
            began.put("spin")
            while True:
                ctx.heartbeat()
                threading.Event().wait(0.01)

        self.work(offered(sleep), offered(spin))
        self.server.give("a", "sleep", {})
        self.server.give("b", "spin", {})
        both = {began.get(timeout=PATIENCE), began.get(timeout=PATIENCE)}
        self.assertEqual(both, {"sleep", "spin"})
        self.server.cancel = ["a", "b", "c"]
        self.server.give("c", "spin", {})
        ended: list[dict[str, Any]] = []
        while len(ended) < 3:
            report = self.server.report()
            if "heartbeat" not in report:
                ended.append(report)
        self.assertEqual({report["task"] for report in ended}, {"a", "b", "c"})
        self.assertTrue(all(report["cancelled"] for report in ended))

    def test_what_runs_too_long_when_the_worker_stops_is_given_back(self) -> None:
        began = threading.Event()

        async def long() -> None:
            began.set()
            await asyncio.sleep(3600)

        worker = self.work(offered(long), grace=0.05)
        self.server.give("a", "long", {})
        self.assertTrue(began.wait(PATIENCE))
        worker.stop()
        self.assertEqual(self.server.report(), {"task": "a", "interrupted": True})

    def test_a_result_that_no_report_can_carry_fails_its_attempt_for_good(self) -> None:
        async def large() -> str:
            return "x" * (15 << 20)

        self.work(offered(large))
        self.server.give("a", "large", {})
        failure = self.server.report()["failure"]
        self.assertEqual((failure["type"], failure["retryable"]), ("BadOutput", False))

    def test_a_worker_that_is_refused_says_why(self) -> None:
        async def one() -> int:
            return 1

        self.server.failing = [401] * 100
        with self.assertRaisesRegex(Refused, "refuses (poll|beat): 401 .*not now"):
            Worker(self.server.url, activities=[offered(one)], token="wrong").run()
        self.assertEqual(self.server.authorizations, {"Bearer wrong"})

    def test_what_a_worker_cannot_offer_is_refused(self) -> None:
        async def one() -> int:
            return 1

        with self.assertRaisesRegex(ValueError, "one: a remote worker offers retry and timeout"):
            Worker(self.server.url, activities=[offered(one, queue="pay")])
        with self.assertRaisesRegex(ValueError, "http://"):
            Worker("127.0.0.1:8460", activities=[offered(one)])
        with self.assertRaisesRegex(ValueError, "without activities"):
            Worker(self.server.url, activities=[])
        with self.assertRaisesRegex(ValueError, "without slots"):
            Worker(self.server.url, activities=[offered(one)], slots=0)


WORKER = """
import sys
from resurgam import ActivityContext, RetryPolicy, activity
from resurgam.remote import Worker

class Busy(Exception):
    pass

@activity(retry=RetryPolicy.fixed(0.01))
async def double(ctx: ActivityContext, n: int) -> int:
    ctx.heartbeat({"n": n})
    if n == 2 and ctx.attempt == 1:
        raise Busy("again")
    return 2 * n

Worker(sys.argv[1]).run()
"""

PROGRAM = "fn main(input: [n], output: [r]):\n    r = @double(n=n) [retry: 3]\n    return r\n"


@unittest.skipUnless(os.environ.get("RESURGAM_CLI"), "RESURGAM_CLI names no program resurgam")
class WithTheServer(unittest.TestCase):
    def test_a_worker_makes_the_attempts_of_a_program_on_the_server(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._serve(pathlib.Path(folder))

    def _serve(self, folder: pathlib.Path) -> None:
        cli = os.environ["RESURGAM_CLI"]
        there = {**os.environ, "RESURGAM_DB": f"sqlite:{folder / 'r.db'}"}
        (folder / "double.rap").write_text(PROGRAM)
        server = subprocess.Popen(
            [cli, "server", "--work", "--listen", "0"],
            stderr=subprocess.PIPE, text=True, env=there, cwd=folder,
        )
        said = server.stderr
        assert said is not None
        self.addCleanup(said.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        address = next(
            line.partition("serving at ")[2].split()[0].rstrip(";,")
            for line in said
            if "serving at " in line
        )
        drained = threading.Thread(target=said.read, daemon=True)
        drained.start()
        worker = subprocess.Popen([sys.executable, "-c", WORKER, address], env=there)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)

        def run(*args: str) -> str:
            done = subprocess.run(
                [cli, *args], capture_output=True, text=True, env=there, cwd=folder
            )
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            return done.stdout

        for n in (1, 2, 3):
            run("start", "double.rap", "--id", f"d-{n}", "--input", json.dumps({"n": n}))
        results = [json.loads(run("watch", f"d-{n}", "--json"))["result"] for n in (1, 2, 3)]
        self.assertEqual(results, [2, 4, 6])
        attempts = json.loads(run("attempts", "d-2", "--json"))
        self.assertEqual(attempts[0]["failure"]["type"], "Busy")
        worker.terminate()
        self.assertEqual(worker.wait(timeout=PATIENCE), 0)
        server.terminate()
        self.assertEqual(server.wait(timeout=PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
