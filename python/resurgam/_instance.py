"""Instances of workflows, by their ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from . import _codec
from ._define import Activity, Workflow
from ._look import Attempt, Description
from ._operate import Acted, act

if TYPE_CHECKING:
    from ._app import _Base

R = TypeVar("R")
T = TypeVar("T")


class Instance(Generic[R]):
    """An instance of a workflow, by its id."""

    __slots__ = ("app", "id", "_workflow")

    def __init__(self, app: _Base, id: str, workflow: Workflow[..., R] | Activity[..., R] | None):
        self.app, self.id, self._workflow = app, id, workflow

    async def result(self) -> R:
        """Waits for the end. Raises what the workflow failed with, :class:`Cancelled` or
        :class:`Terminated`."""
        text = await self.app._until_ended(self.app._ask(self.app._engine.result, self.id))
        decode = json.loads if self._workflow is None else self._workflow.decode
        result: R = decode(text)
        return result

    async def signal(self, name: str, value: Any = None, *, request_id: str | None = None) -> None:
        """Sends a signal. It is durable when this returns, and waits until the workflow reads it."""
        await self.app.signal(self.id, name, value, request_id=request_id)

    async def cancel(self, reason: str = "") -> None:
        """Asks the instance to end: its code gets a ``CancelledError``, as a cancelled task does."""
        await self.app.cancel(self.id, reason)

    async def terminate(self, reason: str = "") -> None:
        """Ends the instance where it stands; its code is not asked, and nothing is undone."""
        await self.app.terminate(self.id, reason)

    async def pause(
        self, *, calls: bool = False, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Has the instance take no turn until somebody resumes it; with ``calls``, its open calls are
        paused, too."""
        return await act(self.app, self.id, "pause", calls=calls, by=by, reason=reason)

    async def resume(
        self, *, calls: bool = False, by: str | None = None, reason: str | None = None
    ) -> Acted:
        """Lets a paused instance go on."""
        return await act(self.app, self.id, "resume", calls=calls, by=by, reason=reason)

    async def restart(self, *, by: str | None = None, reason: str | None = None) -> Acted:
        """Begins a closed instance again, with its input and its options."""
        return await act(self.app, self.id, "restart", by=by, reason=reason)

    async def reset(
        self,
        to: int | str | Activity[..., Any] | None = None,
        *,
        drop_signals: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> Acted:
        """Begins the next run with a copy of the history before an event: the one of this number,
        the last call of this activity, or the last failure."""
        place = to.name if isinstance(to, Activity) else to
        return await act(
            self.app, self.id, "reset", to=place, drop_signals=drop_signals, by=by, reason=reason
        )

    async def wait_for_status(self, status: Any) -> None:
        """Waits until the workflow tells the world this with ``set_status``."""
        await self.app._ask(self.app._engine.wait_for, self.id, _codec.encode(status))

    @overload
    async def status(self) -> Any: ...
    @overload
    async def status(self, type: type[T]) -> T | None: ...
    async def status(self, type: Any = Any) -> Any:
        """What the workflow told the world last with ``set_status``."""
        text = await self.app._ask(self.app._engine.value, self.id)
        return None if text is None else _codec.decoder(type)(text)

    @overload
    async def value(self, key: str) -> Any: ...
    @overload
    async def value(self, key: str, type: type[T]) -> T | None: ...
    async def value(self, key: str, type: Any = Any) -> Any:
        """An entry of the instance's own data."""
        text = await self.app._ask(self.app._engine.value, self.id, key)
        return None if text is None else _codec.decoder(type)(text)

    async def describe(self) -> Description:
        """The instance, and what it waits for."""
        return await self.app.describe(self.id)

    async def history(self, *, run: int | None = None) -> str:
        """The history of the current run, or of an earlier one, with its attempts, one line each."""
        return await self.app.history(self.id, run=run)

    async def attempts(self) -> list[Attempt]:
        """The attempts that did not succeed at once: which there were, what went wrong, and why
        another one followed or did not."""
        return await self.app.attempts_of(self.id)

    def __repr__(self) -> str:
        return f"<instance {self.id}>"


__all__ = ["Instance"]
