"""Nodes: classes with what goes in, what comes out, and the work in between."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any, ClassVar

from .. import _codec, _define, _native
from .._define import Activity, BadInput, BadOutput
from .._failures import dump
from ._models import PruneSignal


class BaseNode:
    """A unit of work of graphs::

        class Shrink(BaseNode):
            class Inputs(BaseModel):
                photo: str

            class Outputs(BaseModel):
                thumbnail: str

            class Secrets(BaseModel):
                api_key: str

            async def execute(self) -> Outputs:
                return self.Outputs(thumbnail=await shrink(self.inputs.photo, self.secrets.api_key))

    It returns one output, a list of them (one branch for each), or nothing. The three classes are
    pydantic models or dataclasses, and each may be left out. Every attempt has an object of its own.
    """

    Inputs: ClassVar[Any] = None
    Outputs: ClassVar[Any] = None
    Secrets: ClassVar[Any] = None

    inputs: Any
    secrets: Any

    async def execute(self) -> Any:
        """The work."""
        raise NotImplementedError(f"{type(self).__name__}.execute")


class NodeActivity(Activity[..., Any]):
    """The activity that runs a node."""

    def __init__(self, node: type[BaseNode]):
        if not inspect.iscoroutinefunction(node.execute):
            raise TypeError(f"{node.__name__}.execute is an async def")

        async def execute() -> Any:
            raise TypeError(f"{node.__name__} runs as a node of a graph")

        execute.__name__ = execute.__qualname__ = node.__name__
        execute.__module__, execute.__doc__ = node.__module__, node.__doc__
        super().__init__(execute, name=node.__name__)
        self.node = node
        self.secrets_key: str | None = None

    def _register(self, builder: Any, place: int, options: str) -> None:
        builder.node(self.name, place, options, self.secrets_key)

    def _made(self, input: str) -> BaseNode:
        _, inputs, secrets = _native.node_call(input, self.secrets_key)
        made = self.node()
        try:
            made.inputs = _read(self.node.Inputs, json.loads(inputs))
            made.secrets = _read(self.node.Secrets, dict(secrets))
        except Exception as error:
            raise BadInput(f"read the inputs of {self.name}: {error}") from error
        return made

    def _outputs(self, result: Any) -> str:
        try:
            return _codec.encode(result)
        except (TypeError, ValueError) as error:
            raise BadOutput(f"write the outputs of {self.name}: {error}") from error

    async def attempt(self, app: Any, port: Any, id: int, input: str, native: Any) -> None:
        try:
            port.complete(id, self._outputs(await self._made(input).execute()))
        except PruneSignal as signal:
            record = {"kind": "error", "type": "Pruned", "message": "pruned", "retryable": False}
            port.fail(id, json.dumps({**record, "details": {"data": _told(signal.data)}}))
        except asyncio.CancelledError as error:
            cancelled = '{"kind":"cancelled","message":"the attempt was cancelled"}'
            port.fail(id, cancelled if native.is_cancelled else dump(error))
        except BaseException as error:
            port.fail(id, dump(error))


def _told(data: Any) -> Any:
    try:
        return json.loads(_codec.encode(data))
    except (TypeError, ValueError):
        return repr(data)


def _read(cls: Any, values: dict[str, Any]) -> Any:
    """Values that a class wants, as an object of it; what it does not know is left out."""
    if cls is None:
        return values
    known = getattr(cls, "model_fields", None) or getattr(cls, "__dataclass_fields__", None)
    wanted = values if known is None else {k: v for k, v in values.items() if k in known}
    convert = _codec.converter(cls)
    return wanted if convert is None else convert(wanted)


def node_activity(node: type[BaseNode], secrets_key: str | None) -> NodeActivity:
    """The activity of a node, known to every app that opens from now on."""
    made = NodeActivity(node)
    known = _define.ACTIVITIES.get(made.name)
    if isinstance(known, NodeActivity) and known.node is node:
        made = known
    _define._register(_define.ACTIVITIES, made.name, made)
    made.secrets_key = secrets_key
    return made


__all__ = ["BaseNode", "NodeActivity", "node_activity"]
