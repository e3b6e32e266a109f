"""Apps on PostgreSQL. ``RESURGAM_TEST_POSTGRES`` is the URL of an empty database for them."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import unittest
import uuid

import resurgam
from resurgam import ActivityContext, App, RetryPolicy, activity, signal, workflow

URL = os.environ.get("RESURGAM_TEST_POSTGRES", "")
FORKED = str(pathlib.Path(__file__).with_name("forked.py"))


@activity(name="postgres.flaky", retry=RetryPolicy.fixed(0.01).max_attempts(5))
async def flaky(ctx: ActivityContext, text: str) -> int:
    if ctx.attempt < 3:
        raise ConnectionError(text)
    return ctx.attempt


@activity(name="postgres.plain")
def plain(number: int) -> int:
    return number * 2


@workflow(name="postgres.flows")
async def flows(text: str) -> list[int]:
    return list(await asyncio.gather(flaky(text), plain(21)))


@workflow(name="postgres.waits")
async def waits() -> str:
    approved: str = await signal("approve", str)
    await asyncio.sleep(0.01)
    return approved


def new(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex}"


@unittest.skipUnless(URL, "RESURGAM_TEST_POSTGRES names no database")
class Postgres(unittest.IsolatedAsyncioTestCase):
    async def test_workflows_run_with_retries_threads_and_what_is_at_once(self) -> None:
        async with App(URL) as app:
            id = new("flows")
            self.assertEqual(await app.run(id, flows, "x"), [3, 42])
            attempts = await app.attempts_of(id)
            self.assertEqual([row.outcome for row in attempts[:2]], ["failed", "failed"])
            with self.assertRaises(resurgam.AlreadyExists):
                await app.start(id, flows, "x")

    async def test_two_apps_share_a_database(self) -> None:
        async with App(URL) as one, App(URL) as other:
            self.assertTrue(one.is_owner and other.is_owner)
            runs = [await one.start(new("waits"), waits) for _ in range(10)]
            for run in runs:
                await other.signal(run.id, "approve", run.id)
            found = [await other.instance(run.id, waits).result() for run in runs]
            self.assertEqual(found, [run.id for run in runs])

    async def test_what_was_started_goes_on_in_the_next_app(self) -> None:
        id = new("waits")
        async with App(URL) as app:
            await app.start(id, waits)
        async with App(URL) as app:
            await app.signal(id, "approve", "yes")
            self.assertEqual(await app.instance(id, waits).result(), "yes")

    async def test_operators_work_on_it_as_well(self) -> None:
        async with App(URL) as app:
            await app.pause_activity(plain)
            run = await app.start(new("flows"), flows, "x")
            self.assertIn("postgres.plain", [hold.name for hold in await app.holds()])
            await app.resume_activity(plain)
            self.assertEqual(await run.result(), [3, 42])

    @unittest.skipUnless(sys.platform == "linux", "other systems do not tell what is open")
    def test_a_child_keeps_no_connection_of_its_parents_engine(self) -> None:
        command = [sys.executable, "-W", "ignore", FORKED, "keeps_no_connection", URL]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
        self.assertEqual(ended.returncode, 0, ended.stderr)


if __name__ == "__main__":
    unittest.main()
