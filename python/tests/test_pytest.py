"""The plugin for pytest, in a pytest of its own."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = """
import asyncio
import pytest
from resurgam import TestApp, activity, workflow

@activity(retry={"max_attempts": 3})
async def fails() -> None:
    raise ConnectionError("no")

@workflow
async def sleeps(days: int) -> int:
    await asyncio.sleep(86400 * days)
    return days

@workflow
async def tries() -> None:
    await fails()

async def test_time_is_virtual(app: TestApp) -> None:
    assert await app.run("s", sleeps, 400) == 400

@pytest.mark.parametrize("days", [1, 2])
async def test_other_fixtures_and_parameters_are_given(app: TestApp, days: int, tmp_path) -> None:
    assert tmp_path.exists()
    assert await app.run("s", sleeps, days) == days

async def test_an_exception_fails_the_test(app: TestApp) -> None:
    await app.run("t", tries)

def test_a_plain_test_is_left_alone() -> None:
    assert True
"""


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not there")
class Plugin(unittest.TestCase):
    def test_tests_that_take_an_app_get_one_that_is_open(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "test_it.py").write_text(TESTS)
            # Installed, the package says by itself that it has a plugin.
            installed = _entry_points()
            plugin = [] if installed else ["-p", "resurgam.pytest_plugin"]
            command = [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider", folder]
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=200, cwd=folder, env=dict(os.environ)
            )
        self.assertIn("1 failed, 4 passed", ran.stdout, ran.stdout + ran.stderr)
        self.assertIn("ConnectionError: no", ran.stdout)


def _entry_points() -> bool:
    from importlib.metadata import entry_points

    return any(point.name == "resurgam" for point in entry_points(group="pytest11"))


if __name__ == "__main__":
    unittest.main()
