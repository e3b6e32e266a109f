"""Apps inside of FastAPI, Django and uvloop, where those are there."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sys
import tempfile
import threading
import typing
import unittest
from collections.abc import AsyncIterator

from resurgam import App, activity, signal, workflow

try:
    import fastapi
    from starlette.testclient import TestClient
except ImportError:
    fastapi = None  # type: ignore[assignment]
try:
    import django
except ImportError:
    django = None  # type: ignore[assignment]
try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]

loops: set[str] = set()
threads: set[str] = set()


@activity
async def pack(item: str) -> str:
    loops.add(type(asyncio.get_running_loop()).__module__.partition(".")[0])
    threads.add(threading.current_thread().name)
    return item.upper()


@activity
def label(item: str) -> str:
    return f"<{item}>"


@workflow
async def ship(items: list[str]) -> list[str]:
    packed = await asyncio.gather(*(pack(item) for item in items))
    return [await label(item) for item in packed]


@workflow
async def approval() -> str:
    return await signal("approve", str)


def skips(what: typing.Any, name: str) -> typing.Any:
    if what is None:
        print(f"{name} is not there: its tests are skipped", file=sys.stderr)
    return unittest.skipIf(what is None, f"{name} is not there")


class Frameworks(unittest.TestCase):
    def setUp(self) -> None:
        loops.clear()
        threads.clear()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = str(pathlib.Path(folder.name) / "app.db")

    def asks(self, client: typing.Any) -> None:
        """What all of them do: a result, a signal from another request, and many at once."""
        self.assertEqual(client.post("/ship/o-1?item=a&item=b").json(), ["<A>", "<B>"])
        self.assertEqual(client.post("/ask/q-1").status_code, 200)
        self.assertEqual(client.post("/approve/q-1?by=ann").status_code, 200)
        self.assertEqual(client.get("/result/q-1").json(), "ann")

    @skips(fastapi, "fastapi")
    def test_an_app_lives_as_long_as_a_fastapi_application(self) -> None:
        file = self.file

        @contextlib.asynccontextmanager
        async def lifespan(api: fastapi.FastAPI) -> AsyncIterator[None]:
            async with App(file) as app:
                api.state.app = app
                yield

        api = fastapi.FastAPI(lifespan=lifespan)

        @api.post("/ship/{id}")
        async def ship_it(id: str, item: typing.Annotated[list[str], fastapi.Query()]) -> list[str]:
            made: list[str] = await api.state.app.run(id, ship, item)
            return made

        @api.post("/ask/{id}")
        async def ask(id: str) -> None:
            await api.state.app.start(id, approval)

        # A plain function, which FastAPI runs on a thread.
        @api.post("/approve/{id}")
        def approve(id: str, by: str) -> None:
            api.state.app.wait(api.state.app.signal(id, "approve", by))

        @api.get("/result/{id}")
        async def result(id: str) -> str:
            made: str = await api.state.app.instance(id, approval).result()
            return made

        with TestClient(api) as client:
            self.asks(client)
        # It was stopped with the application, so the file is free; and nothing is lost.
        with TestClient(api) as client:
            self.assertEqual(client.get("/result/q-1").json(), "ann")
        self.assertEqual(len(threads), 1, "attempts run in the application's event loop")

    @skips(django if fastapi is not None else None, "django")
    def test_an_app_lives_as_long_as_a_django_application(self) -> None:
        from django.conf import settings
        from django.core.asgi import get_asgi_application
        from django.http import HttpRequest, JsonResponse
        from django.urls import path

        app = App(self.file)

        async def ship_it(request: HttpRequest, id: str) -> JsonResponse:
            return JsonResponse(await app.run(id, ship, request.GET.getlist("item")), safe=False)

        # Plain views run on a thread.
        def ask(request: HttpRequest, id: str) -> JsonResponse:
            return JsonResponse({"id": app.start_sync(id, approval).id})

        def approve(request: HttpRequest, id: str) -> JsonResponse:
            app.wait(app.signal(id, "approve", request.GET["by"]))
            return JsonResponse({})

        async def result(request: HttpRequest, id: str) -> JsonResponse:
            return JsonResponse(await app.instance(id, approval).result(), safe=False)

        class Urls:
            urlpatterns = [
                path("ship/<id>", ship_it),
                path("ask/<id>", ask),
                path("approve/<id>", approve),
                path("result/<id>", result),
            ]

        settings.configure(SECRET_KEY="x", ROOT_URLCONF=Urls, ALLOWED_HOSTS=["*"])
        inside = get_asgi_application()

        # Django has no lifespan of its own.
        async def application(scope: typing.Any, receive: typing.Any, send: typing.Any) -> None:
            if scope["type"] != "lifespan":
                return await inside(scope, receive, send)
            await receive()
            async with app:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})

        for _ in range(2):
            with TestClient(application) as client:
                if not threads:
                    self.asks(client)
                self.assertEqual(client.get("/result/q-1").json(), "ann")
        self.assertEqual(len(threads), 1, "attempts run in the application's event loop")

    @skips(uvloop, "uvloop")
    def test_an_app_works_in_the_event_loop_of_uvloop(self) -> None:
        async def main() -> None:
            async with App(self.file) as app:
                shipped = await asyncio.gather(*(app.run(f"s-{n}", ship, ["a"]) for n in range(20)))
                self.assertEqual(shipped, [["<A>"]] * 20)
                run = await app.start("q", approval)
                await run.signal("approve", "ann")
                self.assertEqual(await run.result(), "ann")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
        self.assertEqual(loops, {"uvloop"})


if __name__ == "__main__":
    unittest.main()
