"""Edda's channels, outbox, hooks and its WSGI callable."""

from __future__ import annotations

import asyncio
import dataclasses
import http.server
import io
import json
import pathlib
import tempfile
import threading
import unittest
from typing import Any

from resurgam import edda
from resurgam.edda import (
    ChannelMessage,
    EddaApp,
    EventTimeoutError,
    HooksBase,
    RetryPolicy,
    TerminalError,
    WorkflowContext,
    activity,
    create_wsgi_app,
    publish,
    receive,
    send_event,
    send_event_transactional,
    send_to,
    subscribe,
    unsubscribe,
    workflow,
)


@dataclasses.dataclass
class Count:
    upto: int
    done: int = 0


@workflow
async def hears_news(ctx: WorkflowContext, mode: str) -> list[Any]:
    await subscribe(ctx, "news", mode=mode)  # type: ignore[arg-type]
    message: ChannelMessage = await receive(ctx, "news")
    return [message.data, message.metadata.get("source_instance_id"), message.id]


@workflow
async def hears_no_more(ctx: WorkflowContext) -> str:
    await subscribe(ctx, "news")
    await unsubscribe(ctx, "news")
    try:
        await receive(ctx, "news", timeout_seconds=0.05)
    except EventTimeoutError as error:
        return str(error)
    return "it came"


@workflow
async def tells_news(ctx: WorkflowContext, text: str) -> str:
    return await publish(ctx, "news", {"text": text})


@workflow
async def sends_news(ctx: WorkflowContext, target: str) -> bool:
    return await send_to(ctx, target, "hi", channel="news")


@workflow(event_handler=True)
async def counts_up(ctx: WorkflowContext, input: Count) -> int:
    if input.done < input.upto:
        await edda.recur(ctx, upto=input.upto, done=input.done + 1)
    return input.done


@activity(retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.01))
async def sells_item(ctx: WorkflowContext, item: str) -> str:
    await send_event_transactional(ctx, "item.sold", "shop", {"item": item})
    if item == "nothing":
        raise ConnectionError("sold out")
    return item


@workflow
async def runs_shop(ctx: WorkflowContext, item: str) -> str:
    sold: str = await sells_item(ctx, item)
    await send_event_transactional(ctx, "shop.closed", "shop", {"after": sold})
    return sold


@workflow
async def fails_after(ctx: WorkflowContext, item: str) -> None:
    await sells_item(ctx, item)
    raise TerminalError("too late")


class Broker(http.server.BaseHTTPRequestHandler):
    """Refuses the first event, and takes all others."""

    taken: list[tuple[str, Any]] = []
    refuses = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if Broker.refuses > 0:
            Broker.refuses -= 1
            self.send_response(503)
        else:
            Broker.taken.append((self.headers["ce-type"], json.loads(body)))
            self.send_response(202)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Told(HooksBase):
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    async def on_workflow_start(self, instance_id: str, workflow_name: str, input_data: Any) -> None:
        self.heard.append(("start", workflow_name, input_data))

    async def on_workflow_complete(self, instance_id: str, workflow_name: str, result: Any) -> None:
        self.heard.append(("complete", workflow_name, result))

    async def on_workflow_failed(self, instance_id: str, workflow_name: str, error: Exception) -> None:
        self.heard.append(("failed", workflow_name, str(error)))

    async def on_activity_complete(
        self, instance_id: str, activity_id: str, activity_name: str, result: Any, cache_hit: bool
    ) -> None:
        self.heard.append(("done", activity_name, result))

    async def on_activity_failed(
        self, instance_id: str, activity_id: str, activity_name: str, error: Exception
    ) -> None:
        self.heard.append(("attempt failed", activity_name, str(error)))
        raise ValueError("a hook that is broken changes nothing")


class Messages(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        Broker.taken, Broker.refuses = [], 0
        self.folder = tempfile.TemporaryDirectory()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broker)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.broker = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.hooks = Told()
        self.file = pathlib.Path(self.folder.name, "edda.db")
        self.app = EddaApp(
            "test", f"sqlite:///{self.file}", outbox_enabled=True, broker_url=self.broker,
            hooks=self.hooks,
        )
        await self.app.initialize()

    async def asyncTearDown(self) -> None:
        await self.app.shutdown()
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    async def result(self, id: str) -> Any:
        return await self.app.instance(id).result()

    async def test_a_broadcast_reaches_all_that_listen_and_nobody_else(self) -> None:
        ids = [await hears_news.start(mode="broadcast") for _ in range(3)]
        direct = await hears_news.start(mode="direct")
        source = await tells_news.start(text="good")
        message = await self.result(source)
        for id in ids:
            self.assertEqual(await self.result(id), [{"text": "good"}, source, message])
        self.assertEqual((await self.app.describe(direct)).status, "running")
        self.assertTrue(await self.result(await sends_news.start(target=direct)))
        self.assertEqual((await self.result(direct))[0], "hi")
        self.assertFalse(await self.result(await sends_news.start(target=direct)))

    async def test_of_those_that_compete_one_gets_a_message(self) -> None:
        ids = [await hears_news.start(mode="competing") for _ in range(3)]
        messages = [await self.result(await tells_news.start(text=str(n))) for n in range(3)]
        # Whoever has got one is over, and does not compete any more.
        found = [await self.result(id) for id in ids]
        self.assertEqual(sorted(row[2] for row in found), sorted(messages))

    async def test_who_listens_no_more_waits_in_vain(self) -> None:
        id = await hears_no_more.start()
        await publish(self.app.storage, "news", "unheard")
        self.assertIn("no message came through news", await self.result(id))

    async def test_a_mode_that_does_not_exist_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "broadcast, competing or direct"):
            await hears_news.start(mode="loud")

    async def test_events_leave_when_the_activity_is_done_and_not_before(self) -> None:
        Broker.refuses = 1
        self.assertEqual(await self.result(await runs_shop.start(item="lamp")), "lamp")
        with self.assertRaises(edda.RetryExhaustedError):
            await runs_shop.start(item="nothing")
        with self.assertRaises(TerminalError):
            await fails_after.start(item="bulb")
        while await self.app.storage.get_pending_outbox_events():
            for row in await self.app.list(workflow="edda.deliver", status="running"):
                await self.result(row.id)
        taken = sorted((type, str(data)) for type, data in Broker.taken)
        sold = [("item.sold", "{'item': 'bulb'}"), ("item.sold", "{'item': 'lamp'}")]
        self.assertEqual(taken, [*sold, ("shop.closed", "{'after': 'lamp'}")])

    async def test_an_event_is_sent_now(self) -> None:
        await send_event("now", "test", {"n": 1}, broker_url=self.broker)
        self.assertEqual(Broker.taken, [("now", {"n": 1})])

    async def test_hooks_hear_of_everything_once_and_cannot_break_it(self) -> None:
        with self.assertLogs("resurgam.edda", "ERROR"), self.assertRaises(edda.RetryExhaustedError):
            await runs_shop.start(item="nothing")
        id = await tells_news.start(text="x")
        message = await self.result(id)
        await self.app.shutdown()
        failed = ("attempt failed", "sells_item", "sold out")
        heard = self.hooks.heard
        self.assertEqual(heard[:3], [("start", "runs_shop", {"item": "nothing"}), failed, failed])
        self.assertEqual(heard[3][:2], ("failed", "runs_shop"))
        self.assertEqual(heard[4:], [("start", "tells_news", {"text": "x"}), ("complete", "tells_news", message)])

    async def test_a_workflow_of_one_model_recurs_and_is_started_by_its_fields(self) -> None:
        await self.app.handle_event({"type": "counts_up", "data": {"upto": 3}})
        (row,) = await self.app.list(workflow="counts_up")
        self.assertEqual(await self.result(row.id), 3)
        self.assertEqual((await self.app.describe(row.id)).run, 4)

    async def test_keywords_that_nobody_knows_are_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "poolsize"):
            EddaApp("test", "sqlite:///x.db", poolsize=3)  # type: ignore[call-arg]
        with self.assertRaisesRegex(ValueError, "broker_url"):
            EddaApp("test", "sqlite:///x.db", outbox_enabled=True)

    async def test_a_wsgi_server_takes_events(self) -> None:
        await self.app.shutdown()
        other = EddaApp("test", f"sqlite:///{self.file}")
        call = create_wsgi_app(other)
        statuses: list[str] = []

        def post(path: str, data: Any) -> Any:
            body = json.dumps(data).encode()
            environ = {
                "REQUEST_METHOD": "POST", "PATH_INFO": path, "CONTENT_LENGTH": str(len(body)),
                "wsgi.input": io.BytesIO(body), "HTTP_CE_TYPE": "counts_up",
            }
            return b"".join(call(environ, lambda status, headers: statuses.append(status)))

        told = await asyncio.to_thread(post, "/", {"upto": 1})
        self.assertEqual((statuses, json.loads(told)), (["202 Accepted"], {"status": "accepted"}))
        loop = other._loop
        assert loop is not None
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(other.shutdown(), loop))


if __name__ == "__main__":
    unittest.main()
