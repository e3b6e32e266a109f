"""What Rappel documents, in its own words."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import unittest
from datetime import timedelta

import resurgam.rappel
from resurgam import ActivityContext, TestApp, TimedOut
from resurgam.rappel import action, workflow
from resurgam.rappel.workflow import RetryPolicy, Workflow

tried: list[str] = []


class NetworkError(Exception):
    pass


@dataclasses.dataclass
class Page:
    number: int


@action
async def fetch(number: int) -> Page:
    tried.append(f"fetch {number}")
    if len(tried) < 3:
        raise NetworkError("no answer")
    return Page(number)


@action
async def breaks(number: int) -> int:
    tried.append("breaks")
    raise ValueError(f"{number} is odd")


@action
async def hangs(ctx: ActivityContext) -> None:
    tried.append("hangs")
    await ctx.sleep(86_400)


@workflow
class FetchWorkflow(Workflow):
    async def run(self, number: int) -> Page:
        return await self.run_action(
            fetch(number),
            retry=RetryPolicy(attempts=3, exception_types=["NetworkError"], backoff_seconds=60),
            timeout=timedelta(minutes=2),
        )


@workflow
class OnceWorkflow(Workflow):
    async def run(self) -> list[str]:
        results = await asyncio.gather(breaks(1), breaks(3), return_exceptions=True)
        await asyncio.sleep(5)
        return [f"{type(result).__name__}: {result}" for result in results]


@workflow
class HangingWorkflow(Workflow):
    async def run(self) -> None:
        policy = RetryPolicy(attempts=3, backoff_seconds=10)
        await self.run_action(hangs(), retry=policy, timeout=90)


@workflow
class OtherTypeWorkflow(Workflow):
    name = "other"

    async def run(self) -> None:
        policy = RetryPolicy(attempts=5, exception_types=["NetworkError"], backoff_seconds=1)
        await self.run_action(breaks(1), retry=policy)


class Rappel(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        tried.clear()
        self.app = await self.enterAsyncContext(TestApp())
        resurgam.rappel.use(self.app)

    async def test_three_attempts_are_two_retries_and_the_backoff_doubles(self) -> None:
        begun = self.app.now()
        self.assertEqual(await FetchWorkflow().run(7), Page(7))
        self.assertEqual(tried, ["fetch 7"] * 3)
        self.assertEqual(self.app.now() - begun, dt.timedelta(seconds=60 + 120))
        self.assertEqual(await self.delays(), [60, 120])

    async def test_an_attempt_that_takes_too_long_is_ended_and_tried_again(self) -> None:
        begun = self.app.now()
        with self.assertRaises(TimedOut):
            await HangingWorkflow().run()
        self.assertEqual(tried, ["hangs"] * 3)
        self.assertEqual(await self.delays(), [10, 20, None])
        took = dt.timedelta(seconds=3 * 90 + 10 + 20)
        self.assertEqual(self.app.now() - begun, took)

    async def delays(self) -> list[float | None]:
        """How long was waited after each attempt of the one instance that there is."""
        (row,) = await self.app.list()
        return [attempt.delay for attempt in await self.app.attempts_of(row.id)]

    async def test_an_action_is_not_tried_again_unless_that_is_said(self) -> None:
        self.assertEqual(
            await OnceWorkflow().run(), ["ValueError: 1 is odd", "ValueError: 3 is odd"]
        )
        self.assertEqual(tried, ["breaks", "breaks"])

    async def test_failures_of_other_types_are_not_tried_again(self) -> None:
        with self.assertRaisesRegex(ValueError, "1 is odd"):
            await OtherTypeWorkflow().run()
        self.assertEqual(tried, ["breaks"])

    async def test_a_workflow_that_nobody_waits_for_has_an_id(self) -> None:
        id = await FetchWorkflow().run(1, _blocking=False)
        self.assertTrue(id.startswith("fetchworkflow-"), id)
        self.assertEqual(await self.app.instance(id).result(), {"number": 1})

    async def test_an_action_outside_of_a_workflow_is_the_function(self) -> None:
        with self.assertRaises(NetworkError):
            await fetch(1)


if __name__ == "__main__":
    unittest.main()
