"""Workflows on plain asyncio, in virtual time, every turn replayed."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime as dt
import os
import subprocess
import sys
import time
import unittest
import uuid
from unittest import mock

import resurgam
from resurgam import _loop
from resurgam import (
    ActivityContext,
    Bound,
    Cancelled,
    RetryAfter,
    RetryPolicy,
    Snooze,
    TerminalError,
    TestApp,
    TimedOut,
    WorkflowContext,
    activity,
    failure_of,
    signal,
    workflow,
)

DAILY = RetryPolicy.fixed(dt.timedelta(days=1)).max_attempts(4).jitter("none")
undone: list[int] = []


class CardDeclined(Exception):
    pass


@dataclasses.dataclass
class Order:
    id: str
    cents: int


@dataclasses.dataclass
class Receipt:
    order: str
    paid: int


@activity(retry=DAILY)
async def charge(ctx: ActivityContext, order: Order) -> Receipt:
    if ctx.attempt < 3:
        raise ConnectionResetError("no answer")
    return Receipt(order.id, order.cents)


@activity
async def square(x: int) -> int:
    return x * x


@activity
def plain(x: int) -> int:
    time.sleep(0.001)
    return x * x


@activity
async def undo(x: int) -> None:
    undone.append(x)


@activity
async def slow(ctx: ActivityContext) -> int:
    await ctx.sleep(3600)
    return 1


@activity
async def later(ctx: ActivityContext) -> int:
    if ctx.attempt == 1:
        raise Snooze(60)
    if ctx.attempt == 2:
        raise RetryAfter(120)
    return ctx.attempt


@activity(heartbeat_timeout=30, retry=RetryPolicy.fixed(1).max_attempts(3))
async def beats(ctx: ActivityContext, pages: int) -> list[int]:
    begun = ctx.last_heartbeat(int) or 0
    for page in range(begun, pages):
        ctx.heartbeat(page + 1)
        if page == 1 and ctx.attempt == 1:
            raise ConnectionError("lost")
    return [begun, ctx.attempt]


@workflow
async def pay(order: Order) -> Receipt:
    return await charge(order)


@workflow
async def squares(n: int) -> list[int]:
    return await asyncio.gather(*(square(i) for i in range(n)))


@workflow
async def grouped() -> int:
    async with asyncio.TaskGroup() as group:
        a = group.create_task(square(3))
        b = group.create_task(plain(4))
    return a.result() + b.result()


@workflow
async def naps() -> float:
    begun = resurgam.now()
    await asyncio.sleep(86400)
    return (resurgam.now() - begun).total_seconds()


@workflow
async def impatient() -> str:
    try:
        async with asyncio.timeout(60):
            await signal("go")
    except TimeoutError:
        return "nobody came"
    return "came"


@workflow
async def waits_for() -> str:
    try:
        return await asyncio.wait_for(signal("go", str), 3600)
    except asyncio.TimeoutError:
        return "nobody"


@workflow
async def saga() -> None:
    await square.options(compensate=lambda r: undo.bind(r))(3)
    resurgam.compensate(undo.bind(77))
    await square.options(compensate=undo)(4)
    raise TerminalError("changed my mind")


@workflow
async def race() -> int:
    tasks = [asyncio.create_task(square(5)), asyncio.create_task(asyncio.sleep(10, 1))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return done.pop().result()


@workflow
async def cleans() -> str:
    try:
        await asyncio.sleep(10**6)
    except asyncio.CancelledError:
        await undo(99)  # cancellation is an edge, as everywhere in asyncio
        raise
    return ""


@workflow
async def ignores(ctx: WorkflowContext) -> str | None:
    try:
        await asyncio.sleep(10**6)
    except asyncio.CancelledError:
        pass
    await asyncio.sleep(60)
    return ctx.cancel_requested


@workflow
async def parent(n: int) -> int:
    return sum(sum(each) for each in await asyncio.gather(*(squares(i) for i in range(n))))


@workflow
async def times_out() -> str:
    try:
        await slow.options(timeout=5, retry=RetryPolicy.fixed(1).max_attempts(2))()
    except TimedOut as error:
        return f"{error.kind} {error.attempts}"
    return ""


@workflow
async def again(ctx: WorkflowContext, n: int) -> list[int]:
    if n > 0:
        ctx.continue_as_new(n=n - 1)
    return [n, ctx.run]


@workflow
async def chances(ctx: WorkflowContext) -> bool:
    before = (ctx.random(), str(ctx.uuid4()), ctx.rng().sample(range(100), 3))
    ctx.set_status({"drawn": before[0]})
    ctx.set("uuid", before[1])
    await asyncio.sleep(1)
    return ctx.get("uuid", uuid.UUID) == uuid.UUID(before[1]) and ctx.version("change", 2) == 2


@workflow
async def snoozes() -> int:
    return await later()


@workflow
async def reads_pages() -> list[int]:
    return await beats(4)


@workflow
async def queues_up() -> list[str]:
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def listen(name: str) -> None:
        for _ in range(2):
            await queue.put(f"{name} {await signal(name, int)}")

    listeners = [asyncio.create_task(listen(name)) for name in ("a", "b")]
    got = [await queue.get() for _ in range(4)]
    await asyncio.gather(*listeners)
    return got


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@activity
async def whose() -> str:
    return tenant.get()


@workflow
async def who() -> list[str]:
    mine = tenant.get()
    tenant.set("mine")
    return [mine, await whose(), tenant.get()]


steps: list[int] = []


async def _step(ctx: ActivityContext) -> bool:
    steps.append(ctx.attempt)
    await ctx.sleep(60)
    return ctx.deadline is None


@activity(timeout=10, retry=RetryPolicy.fixed(1).max_attempts(2))
async def bounded(ctx: ActivityContext) -> bool:
    return await _step(ctx)


@activity(retry=RetryPolicy.fixed(1).max_attempts(2))
async def unbounded(ctx: ActivityContext) -> bool:
    return await _step(ctx)


BOUNDED = RetryPolicy.fixed(1).max_attempts(2).timeouts(attempt=10)


@workflow
async def steps_through(way: str) -> bool:
    made = {
        "decorator": bounded,
        "call": unbounded.options(timeout=10),
        "policy": unbounded.options(retry=BOUNDED),
        "silence": unbounded.options(heartbeat_timeout=10),
        "whole call": unbounded.options(total_timeout=10),
    }
    return await made[way]()


@activity(retry=RetryPolicy.fixed(1).max_attempts(3))
async def is_cancelled_by_somebody(ctx: ActivityContext) -> int:
    if ctx.attempt < 3:
        raise asyncio.CancelledError("of another library")
    return ctx.attempt


@workflow
async def meets_a_foreign_cancellation() -> int:
    return await is_cancelled_by_somebody()


@activity(retry=RetryPolicy.fixed(1).max_attempts(3))
async def fails_with_leaves(terminal: int) -> None:
    raise ExceptionGroup("both", [
        TerminalError("one") if terminal > 0 else ValueError("one"),
        ExceptionGroup("more", [TerminalError("two") if terminal > 1 else ValueError("two")]),
    ])


@workflow
async def fails_in_groups(terminal: int) -> None:
    await fails_with_leaves(terminal)


late: list[str] = []


@workflow
async def leaves_tasks_behind() -> str:
    async def goes_on() -> None:
        try:
            late.append(f"{await square(2)}")
        except asyncio.CancelledError:
            late.append("cancelled")
        finally:
            late.append("closed")

    async def is_ready() -> None:
        late.append("began")
        await asyncio.sleep(0)
        late.append("went on")

    first = asyncio.create_task(goes_on())
    await asyncio.sleep(0)
    second = asyncio.create_task(is_ready())
    assert not (first.done() or second.done())
    return "over"


@workflow
async def logs_what_it_does(ctx: WorkflowContext) -> int:
    ctx.log.info("begins")
    value = await square(3)
    ctx.log.info("has %d", value)
    await asyncio.sleep(60)
    return value


class Workflows(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        undone.clear()
        self.app = await self.enterAsyncContext(TestApp())

    async def test_three_days_of_retries_take_no_time(self) -> None:
        begun = self.app.now()
        receipt = await self.app.run("pay-1", pay, Order(id="o", cents=5))
        self.assertEqual(receipt, Receipt("o", 5))
        self.assertEqual(self.app.attempts(charge), 3)
        self.assertEqual(self.app.now() - begun, dt.timedelta(days=2))
        self.assertIn("ConnectionResetError: no answer", await self.app.history("pay-1"))
        ledger = await self.app.instance("pay-1").attempts()
        self.assertEqual([row.attempt for row in ledger], [1, 2])

    async def test_gather_runs_everything_at_once(self) -> None:
        self.assertEqual(await self.app.run("s", squares, 20), [i * i for i in range(20)])

    async def test_five_activities_are_six_commits(self) -> None:
        @workflow
        async def chain() -> int:
            return sum([await square(n) for n in range(5)])

        async with TestApp(replay=False) as app:
            self.assertEqual(await app.run("c", chain), 30)
            self.assertEqual(app.commits(), 6)

    async def test_tasks_of_many_runs_are_told_apart_without_being_compared(self) -> None:
        @workflow
        async def awaits_a_word() -> str:
            return await signal("go", str)

        compared = 0
        task = _loop._Task

        def compares(one: object, other: object) -> bool:
            nonlocal compared
            compared += 1
            return one is other

        with mock.patch.object(task, "__eq__", compares):
            async with TestApp(replay=False) as app:
                runs = [await app.start(f"l-{n}", awaits_a_word) for n in range(300)]
                for run in runs:
                    await run.signal("go", "on")
                for run in runs:
                    self.assertEqual(await run.result(), "on")
        self.assertLess(compared, 300)

    async def test_a_task_group_and_plain_functions(self) -> None:
        self.assertEqual(await self.app.run("g", grouped), 25)

    async def test_sleep_timeout_and_wait_for_are_durable_timers(self) -> None:
        self.assertEqual(await self.app.run("n", naps), 86400)
        self.assertEqual(await self.app.run("i", impatient), "nobody came")
        self.assertEqual(await self.app.run("w", waits_for), "nobody")
        run = await self.app.start("w2", waits_for)
        await run.signal("go", "me")
        self.assertEqual(await run.result(), "me")

    async def test_a_saga_undoes_last_first(self) -> None:
        with self.assertRaisesRegex(TerminalError, "changed my mind"):
            await self.app.run("saga", saga)
        self.assertEqual(undone, [16, 77, 9])

    async def test_a_race_cancels_the_loser(self) -> None:
        self.assertEqual(await self.app.run("r", race), 25)
        self.assertIn("TimerCancelled", await self.app.history("r"))

    async def test_cancellation_is_an_edge(self) -> None:
        run = await self.app.start("x", cleans)
        await run.cancel("enough")
        with self.assertRaises(Cancelled) as caught:
            await run.result()
        self.assertEqual((caught.exception.message, undone), ("enough", [99]))

    async def test_a_cancellation_that_is_swallowed_stays_visible(self) -> None:
        run = await self.app.start("x", ignores)
        await run.cancel("enough")
        self.assertEqual(await run.result(), "enough")

    async def test_children(self) -> None:
        self.assertEqual(await self.app.run("p", parent, 5), 20)

    async def test_a_timeout_of_attempts_is_an_exception_of_its_own(self) -> None:
        self.assertEqual(await self.app.run("t", times_out), "timeout 2")

    async def test_continue_as_new_begins_another_run(self) -> None:
        self.assertEqual(await self.app.run("a", again, 3), [0, 4])

    async def test_the_history_of_an_earlier_run_can_be_read(self) -> None:
        run = await self.app.start("a", again, 3)
        await run.result()
        self.assertIn("RunContinued by Workflow", await run.history(run=1))
        self.assertNotIn("RunContinued by Workflow", await run.history())

    async def test_a_signal_with_the_request_id_of_another_one_is_that_one(self) -> None:
        run = await self.app.start("q", queues_up)
        for name, value in (("b", 1), ("a", 2), ("a", 3), ("b", 4)):
            for _ in range(2):
                await run.signal(name, value, request_id=f"{name}-{value}")
        self.assertEqual(await run.result(), ["b 1", "a 2", "a 3", "b 4"])

    async def test_chance_and_data_are_the_same_on_replay(self) -> None:
        run = await self.app.start("c", chances)
        self.assertTrue(await run.result())
        self.assertIn("drawn", await run.status())

    async def test_snooze_and_retry_after(self) -> None:
        begun = self.app.now()
        self.assertEqual(await self.app.run("z", snoozes), 3)
        self.assertGreaterEqual(self.app.now() - begun, dt.timedelta(seconds=180))

    async def test_the_next_attempt_finds_the_last_heartbeat(self) -> None:
        self.assertEqual(await self.app.run("h", reads_pages), [2, 2])

    async def test_an_asyncio_queue_connects_tasks_of_a_workflow(self) -> None:
        run = await self.app.start("q", queues_up)
        for name, value in (("b", 1), ("a", 2), ("a", 3), ("b", 4)):
            await run.signal(name, value)
        self.assertEqual(await run.result(), ["b 1", "a 2", "a 3", "b 4"])

    async def test_attempts_and_runs_begin_in_an_empty_context(self) -> None:
        tenant.set("the first request")
        async with TestApp() as app:
            self.assertEqual(await app.run("who", who), ["nobody", "nobody", "mine"])

    async def test_a_single_activity_needs_no_workflow(self) -> None:
        run = await self.app.submit("one", charge.options(retry=DAILY.max_attempts(2)), Order("o", 1))
        with self.assertRaises(ConnectionResetError) as caught:
            await run.result()
        failure = failure_of(caught.exception)
        assert failure is not None
        self.assertEqual((failure.attempts, failure.why), (2, "max_attempts"))

    async def test_runs_survive_a_restart_of_the_engine(self) -> None:
        run = await self.app.start("w", waits_for)
        await self.app.restart()
        await run.signal("go", "again")
        self.assertEqual(await run.result(), "again")

    async def test_an_instance_can_be_looked_at(self) -> None:
        run = await self.app.start("w", waits_for.options(tags={"shop": "north"}))
        await run.signal("other")
        await self.app.until_parked()
        found = await run.describe()
        self.assertEqual((found.status, found.unread, len(found.timers)), ("running", ["other"], 1))
        listed = await self.app.list(tag=("shop", "north"), workflow=waits_for)
        self.assertEqual([row.id for row in listed], ["w"])
        await run.terminate("a mistake")
        with self.assertRaises(resurgam.Terminated):
            await run.result()
        with self.assertRaises(resurgam.NotFound):
            await self.app.instance("nobody").result()
        with self.assertRaises(resurgam.AlreadyExists):
            await self.app.start("w", waits_for)

    async def test_no_timeout_ends_an_attempt_for_a_debugger(self) -> None:
        for way in ("decorator", "call", "policy", "silence", "whole call"):
            with self.subTest(way=way):
                steps.clear()
                with self.assertRaises(resurgam.TimedOut):
                    await self.app.run(None, steps_through, way)
                async with TestApp(debug=True) as app:
                    steps.clear()
                    self.assertTrue(await app.run(None, steps_through, way))
                    self.assertEqual(steps, [1])

    async def test_a_cancellation_that_is_not_ours_is_tried_again(self) -> None:
        self.assertEqual(await self.app.run("f", meets_a_foreign_cancellation), 3)
        ledger = await self.app.instance("f").attempts()
        self.assertEqual([row.outcome for row in ledger], ["failed", "failed"])
        self.assertIn("of another library", str(ledger[0].failure))

    async def test_a_group_is_never_tried_again_only_when_all_of_its_leaves_are_terminal(self) -> None:
        for terminal, attempts in ((0, 3), (1, 3), (2, 1)):
            async with TestApp() as app:
                with self.assertRaises(ExceptionGroup):
                    await app.run("g", fails_in_groups, terminal)
                self.assertEqual(app.attempts(fails_with_leaves), attempts, terminal)

    async def test_when_main_ends_other_tasks_get_no_further_turn(self) -> None:
        async with TestApp(replay=False) as app:
            late.clear()
            self.assertEqual(await app.run("l", leaves_tasks_behind), "over")
            await app.until_parked()
        # The first task is closed where it waits, and the second one never begins.
        self.assertEqual(late, ["closed"])

    async def test_a_log_line_is_written_once_however_often_the_code_is_replayed(self) -> None:
        with self.assertLogs("test_workflows", "INFO") as logged:
            run = await self.app.start("l", logs_what_it_does)
            await self.app.advance(30)
            await self.app.restart()
            self.assertEqual(await run.result(), 9)
        self.assertEqual([record.getMessage() for record in logged.records], ["begins", "has 9"])
        self.assertEqual({getattr(record, "instance") for record in logged.records}, {"l"})

    async def test_the_engine_logs_nothing_of_a_replay(self) -> None:
        with self.assertNoLogs("resurgam", "WARNING"):
            run = await self.app.start("l", logs_what_it_does)
            await self.app.advance(30)
            await self.app.restart()
            await run.result()

    def test_the_order_of_tasks_is_the_same_in_all_processes(self) -> None:
        orders = set()
        for seed in range(4):
            ordered = subprocess.run(
                [sys.executable, "-c", ORDERED],
                capture_output=True,
                text=True,
                cwd=os.path.dirname(__file__),
                env={**os.environ, "PYTHONHASHSEED": str(seed)},
            )
            self.assertEqual(ordered.returncode, 0, ordered.stderr)
            orders.add(ordered.stdout)
        self.assertEqual(len(orders), 1, orders)
        self.assertIn("wait", orders.pop())

    def test_a_bound_call_shows_what_it_is(self) -> None:
        self.assertIsInstance(undo.bind(3), Bound)
        self.assertEqual(repr(undo.bind(3)), '<undo bound to {"x":3}>')


# What asyncio iterates over sets for: a group that cancels its tasks, and what `wait` gives back.
ORDERED = """
import asyncio, random
from resurgam import TestApp, workflow

clutter = [object() for _ in range(random.randrange(1000))]  # objects live elsewhere each time

@workflow
async def orders() -> list[str]:
    seen = []

    async def is_cancelled(number: int) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            seen.append(f"group {number}")

    async def fails() -> None:
        raise ValueError

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(9):
                group.create_task(is_cancelled(number))
            await asyncio.sleep(0)
            group.create_task(fails())
    except* ValueError:
        pass
    tasks = [asyncio.create_task(asyncio.sleep(1, f"wait {n}")) for n in range(9)]
    done, _ = await asyncio.wait(tasks)
    seen += [task.result() for task in done]
    return seen

async def main():
    async with TestApp() as app:
        print(await app.run("o", orders))

asyncio.run(main())
"""


if __name__ == "__main__":
    unittest.main()
