"""Processes that are forked: a child opens apps of its own, and keeps nothing of its parent's."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from resurgam import App

PROGRAM = str(pathlib.Path(__file__).with_name("forked.py"))


@unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
class Forks(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "app.db")

    def tearDown(self) -> None:
        self.folder.cleanup()

    def program(self, what: str) -> None:
        command = [sys.executable, "-W", "ignore", PROGRAM, what, self.file]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_child_of_a_process_with_an_app_opens_one_of_its_own(self) -> None:
        self.program("opens_its_own")

    def test_a_child_opens_the_file_of_an_app_that_was_stopped(self) -> None:
        self.program("opens_after_one_was_stopped")

    def test_a_child_is_refused_the_file_that_its_parent_has_open(self) -> None:
        self.program("opens_the_same")

    def test_workers_that_were_forked_after_the_import_open_one_app_each(self) -> None:
        self.program("preloads")

    @unittest.skipUnless(sys.platform == "linux", "other systems do not tell what is open")
    async def test_an_orphan_does_not_keep_the_lock_of_a_process_that_was_killed(self) -> None:
        command = [sys.executable, "-W", "ignore", PROGRAM, "leaves_an_orphan", self.file]
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        try:
            parent.kill()
            parent.wait()
            async with App(self.file) as app:
                self.assertTrue(app.is_owner)
        finally:
            os.kill(orphan, signal.SIGKILL)
            parent.stdout.close()


if __name__ == "__main__":
    unittest.main()
