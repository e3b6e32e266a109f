"""Recorded histories are replayed with today's code."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from resurgam import TestApp, activity, workflow
from resurgam.replay import replay

BEFORE = """
from resurgam import activity, workflow

@activity
async def pack(item: str) -> str:
    return item

@workflow
async def packs(items: set[str]) -> int:
    for item in sorted(items):
        await pack(item)
    return len(items)
"""


@activity(name="replay.greet")
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow(name="replay.welcome")
async def welcome(name: str) -> str:
    return await greet(name)


class Replay(unittest.IsolatedAsyncioTestCase):
    async def test_code_that_takes_another_way_is_shown_with_both_sides(self) -> None:
        async with TestApp() as app:
            await app.run("w", welcome, "Ada")
            history = await app.export_history("w")
        assert history is not None
        self.assertIsNone(replay(history, welcome))
        before = welcome.fn

        async def shouts(name: str) -> str:
            return await greet(name.upper())

        welcome.fn = shouts
        try:
            told = replay(history, welcome)
        finally:
            welcome.fn = before
        self.assertIn("ADA", told or "")
        self.assertIn('"Ada"', told or "")

    def test_what_is_no_history_is_said(self) -> None:
        self.assertIsNotNone(replay("nothing", welcome))

    def test_the_order_of_a_set_is_found_under_another_seed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "packing.py")
            file.write_text(BEFORE)
            record = (
                "import asyncio, packing; from resurgam import TestApp\n"
                "async def main():\n"
                "    async with TestApp() as app:\n"
                "        await app.run('p', packing.packs, {'a', 'b', 'c', 'd', 'e'})\n"
                "        print(await app.export_history('p'), end='')\n"
                "asyncio.run(main())\n"
            )
            recorded = self.python(folder, "-c", record)
            self.assertEqual(recorded.returncode, 0, recorded.stderr)
            history = pathlib.Path(folder, "p.jsonl")
            history.write_text(recorded.stdout)
            command = ["-m", "resurgam", "replay", str(history), "--module", str(file)]
            same = self.python(folder, *command)
            self.assertIn("the way that they say", same.stdout, same.stderr)
            self.assertEqual(same.returncode, 0)
            file.write_text(BEFORE.replace("sorted(items)", "items"))
            other = self.python(folder, *command)
            self.assertEqual(other.returncode, 1, other.stderr)
            self.assertIn("PYTHONHASHSEED", other.stdout)

    def python(self, folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([folder, *[entry for entry in sys.path if entry]])
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, timeout=100, env=environment
        )


if __name__ == "__main__":
    unittest.main()
