"""Schedules, operators' actions, log lines, examples."""

from __future__ import annotations

import asyncio
import datetime as dt
import pathlib
import re
import sys
import unittest

from resurgam._define import ACTIVITIES, WORKFLOWS
from resurgam import RetryPolicy, Schedule, TestApp, activity, set_status, signal, workflow

down = True


@activity(retry=RetryPolicy.fixed(3600).jitter("none"))
async def deliver(parcel: str) -> str:
    if down:
        raise ConnectionError("the van is broken")
    return f"{parcel} is there"


@workflow
async def send(parcel: str) -> str:
    set_status("packed")
    return await deliver(parcel)


@workflow
async def reports(title: str) -> str:
    return title


@workflow
async def holds() -> str:
    return await signal("go", str)


class Operating(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        global down
        down = True
        self.app = await self.enterAsyncContext(TestApp())

    async def test_a_call_that_waits_is_retried_paused_completed_and_failed(self) -> None:
        global down
        run = await self.app.start("s-1", send, "book")
        await run.wait_for_status("packed")
        await self.app.until_parked()
        call = self.app.call("s-1", "deliver")
        paused = await call.pause(by="ann", reason="no van")
        self.assertTrue(paused.changed, paused)
        await self.app.advance(dt.timedelta(days=1))
        self.assertEqual(self.app.attempts(deliver), 1)
        down = False
        await call.resume()
        await call.retry()
        self.assertEqual(await run.result(), "book is there")
        self.assertIn("ann", await run.history())
        down = True
        other = await self.app.start("s-2", send, "lamp")
        await self.app.until_parked()
        await self.app.call("s-2", "deliver").complete("carried there", reason="on foot")
        self.assertEqual(await other.result(), "carried there")
        third = await self.app.start("s-3", send, "vase")
        await self.app.until_parked()
        await self.app.call("s-3", "deliver").fail("it broke")
        with self.assertRaisesRegex(Exception, "it broke"):
            await third.result()

    async def test_a_run_is_paused_resumed_restarted_and_reset(self) -> None:
        run = await self.app.start("h", holds)
        await run.pause()
        await run.signal("go", "there")
        await self.app.until_parked()
        self.assertEqual((await run.describe()).status, "paused")
        await run.resume()
        self.assertEqual(await run.result(), "there")
        self.assertTrue((await run.reset(2, drop_signals=True)).changed)
        await run.signal("go", "again")
        self.assertEqual(await run.result(), "again")
        self.assertTrue((await run.restart()).changed)
        await run.signal("go", "anew")
        self.assertEqual(await run.result(), "anew")

    async def test_a_schedule_starts_a_workflow_by_the_clock(self) -> None:
        await self.app.schedule("nightly", Schedule(cron="0 3 * * *", zone="Europe/Berlin"),
                                reports, "sales")
        await self.app.schedule("nightly", Schedule(cron="0 3 * * *", zone="Europe/Berlin"),
                                reports, "sales")
        now = await self.app.run_schedule_now("nightly")
        self.assertEqual(await now.result(), "sales")
        await self.app.advance(dt.timedelta(days=3))
        (found,) = await self.app.schedules()
        self.assertEqual((found.id, len(found.next)), ("nightly", 5))
        self.assertGreaterEqual(found.started, 3)
        await self.app.pause_schedule("nightly")
        self.assertEqual((await self.app.schedules())[0].next, [])
        await self.app.replace_schedule("nightly", Schedule(every=60), reports, "hourly")
        await self.app.delete_schedule("nightly")
        self.assertEqual(await self.app.schedules(), [])
        with self.assertRaisesRegex(ValueError, "minute"):
            await self.app.schedule("wrong", Schedule(cron="61 * * * *"), reports, "x")

    async def test_what_the_engine_says_reaches_logging(self) -> None:
        with self.assertLogs("resurgam", "WARNING") as logs:

            @workflow(name="blocks")
            async def blocks() -> None:
                await asyncio.Event().wait()

            async with TestApp(workflows=[blocks]) as app:
                await app.start("b", blocks)
                await app.until_parked()
                await app.describe("b")
        self.assertRegex("\n".join(logs.output), "run is blocked: B3 the workflow waits for")


class Examples(unittest.TestCase):
    root = pathlib.Path(__file__).parent.parent

    def test_the_program_of_the_guide_is_the_one_in_the_folder(self) -> None:
        guide = (self.root.parent / "docs" / "python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
        self.assertIn((self.root / "examples" / "letters.py").read_text(), blocks)

    def test_every_block_of_the_guide_can_be_run(self) -> None:
        guide = (self.root.parent / "docs" / "python.md").read_text()
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)):
            with self.subTest(block=block.splitlines()[0]):
                before = [(known, dict(known)) for known in (ACTIVITIES, WORKFLOWS)]
                for known, _ in before:
                    known.clear()
                name = f"guide_{number}"
                module = type(sys)(name)
                sys.modules[name] = module
                exec(compile(block, name, "exec"), module.__dict__)
                for test in [v for k, v in vars(module).items() if k.startswith("test_")]:
                    asyncio.run(test())
                for known, kept in before:
                    known.clear()
                    known.update(kept)

    def test_the_example_passes_its_test(self) -> None:
        examples = str(self.root / "examples")
        found = unittest.TestLoader().discover(examples, top_level_dir=examples)
        result = unittest.TestResult()
        found.run(result)
        self.assertEqual((result.testsRun, result.errors, result.failures), (1, [], []))


if __name__ == "__main__":
    unittest.main()
