"""What does not work in a workflow is found in a test, with a sentence that says what to do."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import socket
import time
import typing
import unittest
import uuid

from resurgam import (
    Blocked,
    NotInWorkflow,
    ResurgamError,
    RetryPolicy,
    TestApp,
    activity,
    signal,
    workflow,
)


@activity
async def note(value: typing.Any) -> None:
    pass


@workflow
async def takes_the_time() -> None:
    await note(time.time())
    await note(0)


@workflow
async def takes_a_random_number() -> None:
    await note(random.random())
    await note(0)


@workflow
async def takes_a_uuid() -> None:
    await note(str(uuid.uuid4()))
    await note(0)


def stamp() -> float:
    return time.time()


@workflow
async def takes_the_time_elsewhere() -> None:
    await note(stamp())
    await note(0)


@workflow
async def opens_a_socket() -> None:
    await asyncio.open_connection("localhost", 80)


@workflow
async def asks_the_network() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


@workflow
async def uses_a_thread() -> None:
    await asyncio.to_thread(time.sleep, 1)


@workflow
async def swallows_everything() -> None:
    try:
        await asyncio.to_thread(time.sleep, 1)
    except BaseException:
        pass


@workflow
async def runs_a_program() -> None:
    await asyncio.create_subprocess_exec("true")


@workflow
async def awaits_a_foreign_future() -> None:
    other = asyncio.new_event_loop()
    try:
        await asyncio.Future(loop=other)
    finally:
        other.close()


@workflow
async def awaits_a_thread_pool() -> None:
    await asyncio.wrap_future(concurrent.futures.Future())


@workflow
async def waits_for_nobody() -> None:
    await asyncio.Event().wait()


@workflow
async def takes_what_completes_first() -> None:
    for each in asyncio.as_completed([note(1), note(2)]):
        await each


@workflow
async def never_waits() -> None:
    while True:
        await asyncio.sleep(0)


@workflow
async def returns_a_socket() -> typing.Any:
    return socket.socket


class Refused(unittest.IsolatedAsyncioTestCase):
    async def refused(self, wf: typing.Any, text: str) -> None:
        async with TestApp() as app:
            await app.start("x", wf)
            await app.until_parked()
            found = await app.describe("x")
            self.assertEqual(found.status, "blocked", found)
            self.assertRegex(found.error or "", text)

    async def test_time_and_chance_are_found_by_replay_with_both_sides_shown(self) -> None:
        for wf in (takes_the_time, takes_a_random_number, takes_a_uuid):
            with self.subTest(wf=wf.name):
                await self.refused(wf, "(?s)its history says.*note.*the code asks for.*note")

    async def test_whoever_takes_time_or_chance_is_told_what_to_write_instead(self) -> None:
        for wf, text in [
            (takes_the_time, r"calls time\.time: write resurgam\.now\(\)"),
            (takes_a_random_number, r"calls random\.random: write resurgam\.random\(\)"),
            (takes_a_uuid, r"calls uuid\.uuid4: write resurgam\.uuid4\(\)"),
            # It is in another function, so no line can be named.
            (takes_the_time_elsewhere, r"resurgam\.now\(\) and not time\.time\(\)"),
        ]:
            with self.subTest(wf=wf.name):
                await self.refused(wf, text)
                async with TestApp() as app:
                    with self.assertRaisesRegex(Blocked, text):
                        await app.run("x", wf)

    async def test_whoever_waits_for_a_blocked_instance_is_told_why(self) -> None:
        async with TestApp() as app:
            with self.assertRaisesRegex(Blocked, "x of uses_a_thread is blocked: B3 .*activity"):
                await app.run("x", uses_a_thread)

    async def test_what_waits_for_the_world_outside_is_refused(self) -> None:
        for wf, text in [
            (opens_a_socket, "a socket, which is not durable: move it into an activity"),
            (asks_the_network, "the network, which is not durable"),
            (uses_a_thread, "a thread .asyncio.to_thread, run_in_executor., which is not durable"),
            (swallows_everything, "a thread"),
            (runs_a_program, "a subprocess, which is not durable"),
            (awaits_a_foreign_future, "a future of another event loop.*in an activity"),
            (awaits_a_thread_pool, "nobody sets|another event loop|call_soon_threadsafe"),
            (waits_for_nobody, "never bring"),
            (takes_what_completes_first, "make tasks of them first"),
            (never_waits, "never waits for anything durable"),
            (returns_a_socket, "the result of returns_a_socket cannot be stored"),
        ]:
            with self.subTest(wf=wf.name):
                await self.refused(wf, text)

    def test_definitions_that_make_no_sense_are_refused_where_they_are_written(self) -> None:
        def star(*names: str) -> None: ...
        def keywords(**names: str) -> None: ...
        def plain() -> None: ...
        def missing(order: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with self.assertRaisesRegex(TypeError, "take a list"):
            activity(star)
        with self.assertRaisesRegex(TypeError, "take a dict instead"):
            activity(keywords)
        with self.assertRaisesRegex(TypeError, "a workflow is an async def"):
            workflow(plain)  # type: ignore[arg-type]
        made = activity(missing)
        with self.assertRaisesRegex(TypeError, "only under TYPE_CHECKING"):
            made._resolve()
        from resurgam._define import ACTIVITIES

        del ACTIVITIES["missing"]
        activity(name="taken")(plain)
        with self.assertRaisesRegex(ValueError, "is there already.*another name"):
            activity(name="taken")(lambda: None)
        with self.assertRaisesRegex(TypeError, "cannot be read from JSON.*dataclass"):

            @activity(name="connects")
            def connects(connection: socket.socket) -> None: ...

            connects._resolve()
        del ACTIVITIES["connects"]

    def test_calls_outside_of_a_workflow_say_what_to_write(self) -> None:
        with self.assertRaisesRegex(NotInWorkflow, r"note\.fn\(\.\.\.\)"):
            note(1)
        with self.assertRaisesRegex(NotInWorkflow, "await app.start"):
            never_waits()
        with self.assertRaisesRegex(NotInWorkflow, "a workflow only"):
            signal("go")
        with self.assertRaisesRegex(TypeError, "has no parameter other"):
            note.bind(other=1)  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "needs value"):
            note.bind()  # type: ignore[call-arg]

    def test_policies_are_checked_where_they_are_written(self) -> None:
        with self.assertRaisesRegex(ValueError, "max_attempts"):
            RetryPolicy.fixed(1).max_attempts(0)
        with self.assertRaisesRegex(ValueError, "max_dely"):
            RetryPolicy(max_dely=3)
        with self.assertRaisesRegex(ValueError, "negative"):
            note.options(timeout=-1)
        self.assertEqual(
            RetryPolicy.exponential(0.2).max_attempts(8).max_delay(30),
            RetryPolicy(
                backoff={"type": "exponential", "initial": "200ms", "multiplier": 2.0},
                max_attempts=8,
                max_delay=30,
            ),
        )
        edda = RetryPolicy.from_dialect("edda", {"max_attempts": 3, "initial_interval": 0.5})
        self.assertEqual(edda.to_json()["max_attempts"], 3)
        exosphere = RetryPolicy.from_dialect(
            "exosphere", {"max_retries": 3, "strategy": "FIXED", "backoff_factor": 2000}
        )
        self.assertEqual(exosphere.to_json()["max_attempts"], 4)

    async def test_an_app_that_is_not_open_says_so(self) -> None:
        with self.assertRaisesRegex(ResurgamError, "async with App"):
            await TestApp().run("x", never_waits)


if __name__ == "__main__":
    unittest.main()
