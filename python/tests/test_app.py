"""Apps on a file: what is kept when a process ends, and how it ends."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal as signals
import subprocess
import sys
import tempfile
import threading
import unittest

import resurgam
from resurgam import ActivityContext, App, activity, signal, workflow

begun: list[int] = []


@activity
async def double(x: int) -> int:
    return 2 * x


@activity
async def endless(ctx: ActivityContext) -> None:
    begun.append(ctx.attempt)
    await asyncio.sleep(3600)


@workflow
async def listens(name: str) -> str:
    return await signal(name, str)


@workflow
async def adds(n: int) -> int:
    return sum(await asyncio.gather(*(double(i) for i in range(n))))


@workflow
async def hangs() -> None:
    await endless()


asker: list[App] = []
released = threading.Event()


@activity(retry={"max_attempts": 1})
async def asks_itself() -> None:
    asker[-1].run_sync(None, adds, 3)


@activity
def asks_the_app() -> int:
    return asker[-1].run_sync(None, adds, 3)


@workflow
async def asks_on_the_loop() -> None:
    await asks_itself()


@workflow
async def asks_on_a_thread() -> int:
    return await asks_the_app()


@workflow
async def waits_itself() -> None:
    asker[-1].run_sync(None, adds, 3)


@workflow
async def blocks_the_thread() -> None:
    released.wait()
    await double(1)


class OnAFile(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        begun.clear()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = str(pathlib.Path(folder.name) / "app.db")

    async def test_an_instance_goes_on_in_the_next_process(self) -> None:
        async with App(self.file) as app:
            await app.start("w", listens, "go")
            self.assertEqual(await app.run(None, adds, 4), 12)
        async with App(self.file) as app:
            await app.signal("w", "go", "again")
            self.assertEqual(await app.instance("w", listens).result(), "again")

    async def test_a_file_is_named_by_its_path_or_by_a_url(self) -> None:
        for number, url in enumerate([self.file, f"sqlite:{self.file}", f"sqlite:///{self.file}"]):
            async with App(url) as app:
                await app.start(f"w-{number}", listens, "go")
                self.assertEqual(len(await app.list()), number + 1)

    async def test_the_processes_at_work_are_listed(self) -> None:
        async with App(self.file) as app:
            self.assertEqual([node.pid for node in await app.nodes()], [os.getpid()])

    async def test_many_at_once(self) -> None:
        async with App(self.file) as app:
            sums = await asyncio.gather(*(app.run(f"a-{n}", adds, 5) for n in range(50)))
        self.assertEqual(sums, [20] * 50)

    async def test_a_stop_interrupts_attempts_after_their_grace_and_counts_them_as_no_failure(
        self,
    ) -> None:
        async with App(self.file, grace=0.05) as app:
            run = await app.start("h", hangs)
            while not begun:
                await asyncio.sleep(0.01)
        async with App(self.file, grace=0.05) as app:
            while len(begun) < 2:
                await asyncio.sleep(0.01)
            row = (await app.instance(run.id).describe()).pending[0]
            self.assertEqual((row.attempt, row.running), (2, True))

    def test_a_script_needs_no_event_loop(self) -> None:
        with App(self.file) as app:
            self.assertEqual(app.run_sync(None, adds, 3), 6)
            run = app.start_sync("l", listens, "go")
            app.wait(run.signal("go", "on"))
            self.assertEqual(app.wait(run.result()), "on")
            with self.assertRaises(resurgam.NotFound):
                app.wait(app.history("nobody"))
        with self.assertRaisesRegex(resurgam.ResurgamError, "with App"):
            App(self.file).run_sync(None, adds, 3)

    def test_waiting_on_the_loop_that_is_waited_for_is_refused(self) -> None:
        with App(self.file) as app:
            asker.append(app)
            with self.assertRaisesRegex(resurgam.ResurgamError, "would wait for itself: await it"):
                app.run_sync(None, asks_on_the_loop)
            # A plain function has a thread of its own, on which waiting harms nobody.
            self.assertEqual(app.run_sync(None, asks_on_a_thread), 6)

    async def test_an_app_is_not_for_workflows(self) -> None:
        async with App(self.file) as app:
            asker.append(app)
            await app.start("w", waits_itself)
            while (found := await app.describe("w")).status != "blocked":
                await asyncio.sleep(0.01)
            self.assertRegex(found.error or "", "uses an app, which is not durable: await activities")

    async def test_a_turn_that_takes_long_is_logged_with_its_stack(self) -> None:
        async with App(self.file) as app:
            with self.assertLogs("resurgam", "WARNING") as logged:
                ended = asyncio.ensure_future(app.run("b", blocks_the_thread))
                # It ends when the line is there, so that nothing depends on how long that takes.
                while not logged.output:
                    await asyncio.sleep(0.01)
                released.set()
                await ended
        self.assertRegex(logged.output[0], r"(?s)a turn of a workflow has taken [1-9].*released\.wait")

    async def test_an_app_in_another_loop_says_so(self) -> None:
        async with App(self.file) as app:

            def ask() -> None:
                asyncio.run(app.history("nobody"))

            with self.assertRaisesRegex(resurgam.ResurgamError, "run_coroutine_threadsafe"):
                await asyncio.to_thread(ask)

    async def test_a_database_that_cannot_be_opened_is_an_error(self) -> None:
        with self.assertRaisesRegex(resurgam.ResurgamError, "no/such/folder"):
            async with App("/no/such/folder/app.db"):
                pass
        with self.assertRaisesRegex(ValueError, "postgresql://"):
            App("mysql://localhost/app")

    async def test_a_forked_child_is_told_to_open_an_app_of_its_own(self) -> None:
        async with App(self.file) as app:
            child = os.fork()
            if child == 0:
                try:
                    app._engine
                except resurgam.ResurgamError as error:
                    os._exit(7 if "post_fork" in str(error) else 1)
                os._exit(2)
            _, status = os.waitpid(child, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 7)
            self.assertEqual(await app.run(None, adds, 2), 2)

    def started(self, program: str) -> subprocess.Popen[str]:
        """A process with this program, which has said that it is ready."""
        text = program.format(path=[p for p in sys.path if p], file=self.file)
        child = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline().strip(), "ready")
        return child

    def test_ctrl_c_stops_in_an_orderly_way(self) -> None:
        child = self.started(PROGRAM)
        child.send_signal(signals.SIGINT)
        out, errors = child.communicate(timeout=60)
        self.assertIn("stopped", out, errors)
        self.assertIn("KeyboardInterrupt", errors)

    def test_ctrl_c_is_heard_by_a_script_that_waits(self) -> None:
        child = self.started(SCRIPT)
        child.send_signal(signals.SIGINT)
        out, errors = child.communicate(timeout=60)
        self.assertIn("stopped", out, errors)
        self.assertIn("KeyboardInterrupt", errors)

    def test_a_second_ctrl_c_gives_up_and_loses_nothing(self) -> None:
        child = self.started(STUBBORN)
        assert child.stdout is not None
        child.send_signal(signals.SIGINT)
        # The attempt has an hour to end; whoever is impatient presses the keys again.
        self.assertEqual(child.stdout.readline().strip(), "stopping")
        child.send_signal(signals.SIGINT)
        _, errors = child.communicate(timeout=60)
        self.assertNotEqual(child.returncode, 0, errors)
        self.assertIn("KeyboardInterrupt", errors)
        with App(self.file) as app:
            self.assertEqual(app.wait(app.describe("h")).status, "running")


# A shell that starts this suite in the background makes its children deaf to Ctrl-C.
PROGRAM = """
import asyncio, signal as signals, sys
signals.signal(signals.SIGINT, signals.default_int_handler)
sys.path[:0] = {path!r}
from resurgam import App, signal, workflow

@workflow
async def waits() -> None:
    await signal("never")

async def main():
    async with App({file!r}) as app:
        run = await app.start("w", waits)
        print("ready", flush=True)
        try:
            await run.result()
        finally:
            pass
    print("not reached")

try:
    asyncio.run(main())
finally:
    print("stopped", flush=True)
"""

SCRIPT = """
import signal as signals, sys
signals.signal(signals.SIGINT, signals.default_int_handler)
sys.path[:0] = {path!r}
from resurgam import App, signal, workflow

@workflow
async def waits() -> None:
    await signal("never")

try:
    with App({file!r}) as app:
        run = app.start_sync("w", waits)
        print("ready", flush=True)
        app.wait(run.result())
    print("not reached")
finally:
    print("stopped", flush=True)
"""

STUBBORN = """
import asyncio, signal as signals, sys
signals.signal(signals.SIGINT, signals.default_int_handler)
sys.path[:0] = {path!r}
from resurgam import App, activity, workflow

@activity
async def goes_on() -> None:
    print("ready", flush=True)
    await asyncio.sleep(3600)

@workflow
async def hangs() -> None:
    await goes_on()

with App({file!r}, grace=3600) as app:
    try:
        app.run_sync("h", hangs)
    finally:
        print("stopping", flush=True)
"""


if __name__ == "__main__":
    unittest.main()
