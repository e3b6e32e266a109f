"""Events that leave: at once, or when the activity that has made them is recorded as done."""

from __future__ import annotations

import asyncio
import json
import urllib.request
import uuid
from typing import Any

from .. import _codec
from .._failures import ResurgamError, TerminalError
from .._retry import RetryPolicy as _RetryPolicy
from . import _core
from ._core import EddaActivity, EddaWorkflow, WorkflowContext, _loop_of, _the_app

_BROKER = "http://broker-ingress.knative-eventing.svc.cluster.local"


async def send_event(
    event_type: str,
    source: str,
    data: Any,
    broker_url: str = _BROKER,
    datacontenttype: str | None = None,
) -> None:
    """Posts an event to a broker, now."""
    event = _event(event_type, source, data, datacontenttype or "application/json")
    await asyncio.to_thread(_post, broker_url, event)


async def send_event_transactional(
    ctx: WorkflowContext,
    event_type: str,
    event_source: str,
    event_data: Any,
    content_type: str = "application/json",
) -> str:
    """Has an event posted to the broker of the app once this activity is recorded as completed; an
    attempt that fails sends nothing. It is posted until the broker takes it, for a day, by an
    instance of its own that does not end with the workflow."""
    app = _the_app()
    if not app.outbox_enabled:
        raise TerminalError(
            "the outbox is off: EddaApp(..., outbox_enabled=True, broker_url=...)"
        )
    event = _event(event_type, event_source, event_data, content_type)
    if ctx._loop is None:
        ctx._events.append(event)
    else:
        event["id"] = str(_loop_of(ctx).uuid4())
        send_off([event])
    return str(event["id"])


def _event(type: str, source: str, data: Any, content_type: str) -> dict[str, Any]:
    plain = json.loads(_codec.encode(data))
    return {
        "id": str(uuid.uuid4()),
        "type": type,
        "source": source,
        "datacontenttype": content_type,
        "data": plain,
    }


def send_off(events: list[dict[str, Any]]) -> None:
    """Starts the delivery of each, from the code of a workflow."""
    for event in events:
        _deliver.start_detached(f"{_deliver.name}-{event['id']}", event)


def _post(broker_url: str, event: dict[str, Any]) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": event["id"],
        "ce-type": event["type"],
        "ce-source": event["source"],
        "content-type": event["datacontenttype"],
    }
    body = json.dumps(event["data"]).encode()
    request = urllib.request.Request(broker_url, body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=30):
        pass


async def _posted(ctx: Any, event: dict[str, Any]) -> None:
    app = _the_app()
    if app.broker_url is None:
        raise ResurgamError("there is no broker_url in this process")
    await asyncio.to_thread(_post, app.broker_url, event)
    await app._tell("on_event_sent", event["type"], event["source"], event["data"])


_PATIENT = _RetryPolicy.exponential(1).max_delay(300).max_elapsed(86_400)
_send = EddaActivity(_posted, name="edda.post", retry=_PATIENT)


async def _delivered(ctx: Any, event: dict[str, Any]) -> None:
    await _send(ctx, event)


_deliver = EddaWorkflow(_delivered, name="edda.deliver")
_core._own.append(_send)
_core._own_workflows.append(_deliver)


class OutboxRelayer:
    """Not needed: the engine delivers what is in the outbox, and goes on after a crash."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise ResurgamError(
            "there is no relayer to run: EddaApp(..., outbox_enabled=True, broker_url=...) delivers"
        )


__all__ = ["OutboxRelayer", "send_event", "send_event_transactional"]
