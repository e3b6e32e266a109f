"""Messages between instances: Edda's channels.

A channel's message is a signal of each instance that listens. Which channels an instance listens to
is an entry of its own data, so whoever publishes can look for it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import uuid
from typing import Any, Literal

from .. import _codec
from .._failures import AlreadyClosed, NotFound
from . import _core
from ._core import EddaActivity, EventTimeoutError, WorkflowContext, _loop_of, _the_app

#: Where an instance notes which channels it listens to.
_CHANNELS = "edda.channels"
_DIRECT = "__direct__"
Mode = Literal["broadcast", "competing", "direct"]


@dataclasses.dataclass
class ChannelMessage:
    """A message that came through a channel."""

    id: str
    channel: str
    data: Any
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    published_at: dt.datetime = dataclasses.field(
        default_factory=lambda: dt.datetime.now(dt.timezone.utc)
    )


def _listens(loop: Any) -> dict[str, str]:
    found: dict[str, str] = json.loads(loop.run.get(_CHANNELS) or "{}")
    return found


async def subscribe(ctx: WorkflowContext, channel: str, mode: Mode = "broadcast") -> None:
    """Listens to a channel: ``broadcast`` gets every message that is published from now on,
    ``competing`` shares them out among those that listen so, ``direct`` gets what is sent to this
    instance only."""
    if mode not in ("broadcast", "competing", "direct"):
        raise ValueError(f"mode={mode!r}: broadcast, competing or direct")
    loop = _loop_of(ctx)
    known = _listens(loop)
    if known.get(channel) != mode:
        loop.run.set(_CHANNELS, json.dumps({**known, channel: mode}))


async def unsubscribe(ctx: WorkflowContext, channel: str) -> None:
    """Listens no more."""
    loop = _loop_of(ctx)
    known = _listens(loop)
    known.pop(channel, None)
    loop.run.set(_CHANNELS, json.dumps(known))


async def receive(
    ctx: WorkflowContext,
    channel: str,
    timeout_seconds: float | None = None,
    message_id: str | None = None,
) -> ChannelMessage:
    """Waits for the next message of a channel."""
    loop = _loop_of(ctx)
    loop.waits += 1
    loop.run.set(_core._WAITS, json.dumps({"channel": channel}))
    read = _codec.decoder(ChannelMessage)
    try:
        message = loop.wait(loop.run.signal(f"channel:{channel}"), read)
        received: ChannelMessage = await asyncio.wait_for(message, timeout_seconds)
        return received
    except TimeoutError:
        raise EventTimeoutError(
            f"no message came through {channel} within {timeout_seconds} seconds"
        ) from None
    finally:
        loop.waits -= 1
        loop.run.set(_core._WAITS, "null")


async def publish(
    ctx_or_storage: Any,
    channel: str,
    data: Any,
    metadata: dict[str, Any] | None = None,
    *,
    target_instance_id: str | None = None,
    worker_id: str | None = None,
) -> str:
    """Sends a message to the instances that listen to a channel, or to one; answers with its id."""
    ctx = ctx_or_storage if isinstance(ctx_or_storage, WorkflowContext) else None
    source = {} if ctx is None else {"source_instance_id": ctx.instance_id}
    made = {"channel": channel, "data": data, "metadata": {**source, **(metadata or {})}}
    if ctx is not None and ctx._loop is not None:
        id = str(_loop_of(ctx).uuid4())
        await _publish(ctx, **made, id=id, target=target_instance_id)
        return id
    id = str(uuid.uuid4())
    await _send(**made, id=id, target=target_instance_id)
    return id


async def send_to(
    ctx: WorkflowContext,
    instance_id: str,
    data: Any,
    channel: str = _DIRECT,
    metadata: dict[str, Any] | None = None,
) -> bool:
    """Sends a message to one instance; false when there is none that is open."""
    made = {"source_instance_id": ctx.instance_id, **(metadata or {})}
    given = {"channel": channel, "data": data, "metadata": made, "target": instance_id}
    if ctx._loop is None:
        return bool(await _send(**given, id=str(uuid.uuid4())))
    return bool(await _publish(ctx, **given, id=str(_loop_of(ctx).uuid4())))


async def _send(
    channel: str, data: Any, metadata: dict[str, Any], id: str, target: str | None = None
) -> int:
    """Signals those that listen; the id of the message makes a repetition harmless."""
    app = _the_app()
    message = ChannelMessage(id, channel, data, metadata)
    told = 0
    for instance in [target] if target is not None else await _listeners(channel, id):
        text = _codec.encode(message)
        try:
            await app._ask(app._engine.signal, instance, f"channel:{channel}", text, id)
            told += 1
        except (AlreadyClosed, NotFound):
            continue
    return told


async def _listeners(channel: str, id: str) -> list[str]:
    app = _the_app()
    competing, found = [], []
    for row in await app.list(status="running", limit=10_000):
        known = await app.instance(row.id).value(_CHANNELS)
        mode = known.get(channel) if isinstance(known, dict) else None
        if mode == "broadcast":
            found.append(row.id)
        elif mode == "competing":
            competing.append(row.id)
    if competing:
        # The same one when the message is sent again.
        found.append(sorted(competing)[hash_of(id) % len(competing)])
    return found


def hash_of(id: str) -> int:
    return uuid.UUID(id).int


async def _published(
    ctx: Any, channel: str, data: Any, metadata: dict[str, Any], id: str, target: str | None = None
) -> int:
    return await _send(channel, data, metadata, id, target)


_publish = EddaActivity(_published, name="edda.publish")
_core._own.append(_publish)

__all__ = ["ChannelMessage", "publish", "receive", "send_to", "subscribe", "unsubscribe"]
