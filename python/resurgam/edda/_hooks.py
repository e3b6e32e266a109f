"""What an app is told of while workflows and activities run: Edda's hooks."""

from __future__ import annotations

from typing import Any, Protocol


class WorkflowHooks(Protocol):
    """What a program may want to hear. Nothing is told again when a workflow is replayed, so
    ``is_replaying`` and ``cache_hit`` are always false."""

    async def on_workflow_start(
        self, instance_id: str, workflow_name: str, input_data: dict[str, Any]
    ) -> None:
        """A run takes its first turn."""

    async def on_workflow_complete(
        self, instance_id: str, workflow_name: str, result: Any
    ) -> None:
        """A workflow has returned."""

    async def on_workflow_failed(
        self, instance_id: str, workflow_name: str, error: Exception
    ) -> None:
        """A workflow has raised."""

    async def on_workflow_cancelled(self, instance_id: str, workflow_name: str) -> None:
        """A workflow was cancelled."""

    async def on_activity_start(
        self, instance_id: str, activity_id: str, activity_name: str, is_replaying: bool
    ) -> None:
        """An attempt begins."""

    async def on_activity_complete(
        self,
        instance_id: str,
        activity_id: str,
        activity_name: str,
        result: Any,
        cache_hit: bool,
    ) -> None:
        """An attempt has returned."""

    async def on_activity_failed(
        self, instance_id: str, activity_id: str, activity_name: str, error: Exception
    ) -> None:
        """An attempt has raised. Whether another one follows, the policy decides."""

    async def on_activity_retry(
        self,
        instance_id: str,
        activity_id: str,
        activity_name: str,
        error: Exception,
        attempt: int,
        delay: float,
    ) -> None:
        """Not called: the delay is decided by the engine, which records it with the attempt."""

    async def on_event_sent(
        self, event_type: str, event_source: str, event_data: dict[str, Any]
    ) -> None:
        """The broker has taken an event."""

    async def on_event_received(
        self, instance_id: str, event_type: str, event_data: dict[str, Any]
    ) -> None:
        """An event was handed to an instance."""


class HooksBase(WorkflowHooks):
    """Hooks that do nothing: subclass it, and write those that are wanted."""


__all__ = ["HooksBase", "WorkflowHooks"]
