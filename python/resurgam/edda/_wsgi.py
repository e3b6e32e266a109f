"""The app for servers that speak WSGI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ._core import EddaApp

_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 405: "Method Not Allowed"}


def create_wsgi_app(app: EddaApp) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """Makes a WSGI callable of an app. It opens with the first request, in an event loop on a thread
    of its own."""
    first = threading.Lock()
    loops: list[asyncio.AbstractEventLoop] = []

    def loop() -> asyncio.AbstractEventLoop:
        with first:
            if not loops:
                made = asyncio.new_event_loop()
                threading.Thread(target=made.run_forever, name="edda-wsgi", daemon=True).start()
                asyncio.run_coroutine_threadsafe(app.initialize(), made).result()
                loops.append(made)
            return loops[0]

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        headers = [
            (name[5:].replace("_", "-").lower().encode(), value.encode())
            for name, value in environ.items()
            if name.startswith("HTTP_")
        ]
        scope = {
            "type": "http",
            "method": environ["REQUEST_METHOD"],
            "path": environ.get("PATH_INFO", "/"),
            "headers": headers,
        }
        asked = asyncio.run_coroutine_threadsafe(app._respond(scope, body), loop())
        status, text = asked.result()
        start_response(
            f"{status} {_REASONS.get(status, '')}", [("content-type", "application/json")]
        )
        return [text]

    return answer


__all__ = ["create_wsgi_app"]
