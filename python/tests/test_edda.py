"""Edda's words: sagas, events, cancelling, HTTP."""

from __future__ import annotations

import json
import pathlib
import tempfile
import typing
import unittest

from resurgam.edda import (
    EddaApp,
    EventTimeoutError,
    RetryExhaustedError,
    RetryPolicy,
    TerminalError,
    WorkflowContext,
    activity,
    compensation,
    on_failure,
    register_compensation,
    sleep,
    wait_event,
    workflow,
)

said: list[str] = []


@compensation
async def release(ctx: WorkflowContext, room: str, key: int) -> None:
    said.append(f"release {room} {key}")


@activity
@on_failure(release)
async def reserve(ctx: WorkflowContext, room: str) -> dict[str, int]:
    return {"key": 7}


@activity
async def lend(ctx: WorkflowContext, what: str) -> str:
    await register_compensation(ctx, take_back, what=what)
    return what


async def take_back(ctx: WorkflowContext, what: str) -> None:
    said.append(f"take back {what}")


@activity(retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.01))
async def pay(ctx: WorkflowContext, cents: int) -> None:
    said.append("pay")
    if cents < 0:
        raise TerminalError("less than nothing")
    raise ConnectionError("no answer")


@workflow
async def stay(ctx: WorkflowContext, room: str, cents: int) -> None:
    await reserve(ctx, room)
    await lend(ctx, "towel")
    await register_compensation(ctx, take_back, what="deposit")
    await pay(ctx, cents)


@workflow
async def awaits_payment(ctx: WorkflowContext) -> typing.Any:
    event = await wait_event(ctx, "payment.completed", timeout_seconds=60)
    return event.data["cents"]


@workflow
async def awaits_in_vain(ctx: WorkflowContext) -> str:
    try:
        await wait_event(ctx, "never", timeout_seconds=0.02)
    except EventTimeoutError as error:
        return str(error)
    return ""


@workflow
async def naps(ctx: WorkflowContext) -> str:
    await lend(ctx, "blanket")
    await sleep(ctx, 3600)
    return ctx.instance_id


class Edda(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        said.clear()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        url = f"sqlite:///{pathlib.Path(folder.name) / 'edda.db'}"
        self.app = EddaApp(service_name="test", db_url=url)
        await self.app.initialize()
        self.addAsyncCleanup(self.app.shutdown)

    async def test_what_was_done_is_undone_last_first_when_retries_are_exhausted(self) -> None:
        with self.assertRaisesRegex(RetryExhaustedError, r"Max attempts \(3\) reached") as caught:
            await stay.start(room="A", cents=5)
        self.assertIsNotNone(caught.exception.__cause__)
        undone = ["take back deposit", "take back towel", "release A 7"]
        self.assertEqual(said, ["pay"] * 3 + undone)
        said.clear()
        with self.assertRaisesRegex(TerminalError, "less than nothing"):
            await stay.start(room="B", cents=-1)
        self.assertEqual(said[0:2], ["pay", "take back deposit"])

    async def test_an_event_reaches_the_instance_that_waits_for_it(self) -> None:
        id = await awaits_payment.start()
        found = await self.app.storage.get_instance(id)
        assert found is not None
        self.assertEqual(found["status"], "waiting_for_message")
        await self.app.handle_event({"type": "payment.completed", "data": {"cents": 5}})
        self.assertEqual(await self.app.instance(id).result(), 5)
        found = await self.app.storage.get_instance(id)
        assert found is not None
        self.assertEqual((found["status"], found["output_data"]), ("completed", {"result": 5}))
        self.assertIsNone(await self.app.storage.get_instance("nobody"))

    async def test_an_event_that_does_not_come_is_an_error_of_its_own(self) -> None:
        id = await awaits_in_vain.start()
        self.assertIn("no event never came", await self.app.instance(id).result())

    async def test_events_and_cancellations_come_over_http(self) -> None:
        id = await awaits_payment.start()
        headers = [(b"ce-type", b"payment.completed"), (b"ce-id", b"1")]
        status = await self.post("/", headers, {"cents": 9})
        self.assertEqual((status, await self.app.instance(id).result()), (202, 9))
        sleeper = await naps.start()
        self.assertEqual(await self.post(f"/cancel/{sleeper}", [], None), 200)
        with self.assertRaisesRegex(Exception, "cancelled"):
            await self.app.instance(sleeper).result()
        self.assertEqual(said, ["take back blanket"])

    async def post(self, path: str, headers: typing.Any, body: typing.Any) -> int:
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        sent: list[typing.Any] = []

        async def receive() -> typing.Any:
            return {"body": json.dumps(body).encode()}

        async def send(message: typing.Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return int(sent[0]["status"])


if __name__ == "__main__":
    unittest.main()
