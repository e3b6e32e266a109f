"""What Rappel documents, in its own words."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import unittest
from datetime import timedelta

import resurgam.rappel
from resurgam import TestApp
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
async def hangs() -> None:
    tried.append("hangs")
    await asyncio.Event().wait()


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
        waited = self.app.now() - begun
        self.assertGreaterEqual(waited, dt.timedelta(seconds=60))
        self.assertLessEqual(waited, dt.timedelta(seconds=60 * (1 + 2 + 4)))

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
