"""The process that runs nodes, and what graphs are handed to."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Sequence
from typing import Any

from .. import _native
from .._app import App, Instance, _Base
from .._failures import InvalidRequest, NotFound, ResurgamError
from .._operate import Schedule
from ._models import (
    CronTrigger,
    GraphNodeModel,
    RetryPolicyModel,
    StoreConfigModel,
)
from ._node import BaseNode, NodeActivity, node_activity

_GRAPH = "graph"
_app: _Base | None = None
_opening = asyncio.Lock()
_templates: dict[tuple[str, str], dict[str, Any]] = {}


def use(app: _Base | None) -> None:
    """Has nodes and graphs work on this app. Without it they work on one of their own, on the file or
    the URL that the environment names in ``RESURGAM_DATABASE`` (``resurgam.db``). Open it after the
    runtimes were made: an app knows the nodes that there are when it opens."""
    global _app, _opening
    _app, _opening = app, asyncio.Lock()


def new_secrets_key() -> str:
    """A key for the secrets of graphs. Keep it in ``RESURGAM_SECRETS_KEY``."""
    return _native.new_secrets_key()


async def _the_app() -> _Base:
    global _app
    async with _opening:
        if _app is None or (_app._loop is not None and _app._loop.is_closed()):
            _app = App(os.environ.get("RESURGAM_DATABASE", "resurgam.db"))
        if _app._native is None:
            await _app.open()
    return _app


class Runtime:
    """Runs nodes of a namespace::

        Runtime(namespace="photos", name="workers", nodes=[Check, Shrink]).start()

    ``start`` works until the process ends; in an event loop it answers with a task instead. Where
    Exosphere's runtime is told of a state manager (``state_manager_uri``, ``key``), this one works on
    a database; how many attempts run at once is the app's ``slots``.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        nodes: Sequence[type[BaseNode]],
        *,
        secrets_key: str | None = None,
    ):
        for node in nodes:
            if not (isinstance(node, type) and issubclass(node, BaseNode)):
                raise TypeError(f"nodes: {node!r} is none; a node is a class of BaseNode")
        self.namespace, self.name = namespace, name
        self.activities: list[NodeActivity] = [node_activity(n, secrets_key) for n in nodes]

    async def run(self) -> None:
        """Works until it is cancelled."""
        app = await _the_app()
        unknown = [made.name for made in self.activities if made not in app._activities]
        if unknown:
            raise ResurgamError(
                f"runtime {self.name}: the app was opened before it, and does not know "
                f"{', '.join(unknown)}; make all runtimes first"
            )
        try:
            await asyncio.Event().wait()
        finally:
            await app.stop()

    def start(self) -> asyncio.Task[None] | None:
        """Works: as a task in an event loop, else until the process is interrupted."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            try:
                asyncio.run(self.run())
            except KeyboardInterrupt:
                pass
            return None
        return loop.create_task(self.run())


class StateManager:
    """Graphs of a namespace, and their runs.

    A graph is kept in this process: upsert it whenever the program starts. A run carries its graph,
    so it goes on as it was begun, here and in any other process on the database.
    """

    def __init__(self, namespace: str, *, secrets_key: str | None = None):
        self.namespace, self._key = namespace, secrets_key

    async def upsert_graph(
        self,
        graph_name: str,
        graph_nodes: Sequence[GraphNodeModel],
        secrets: dict[str, str],
        retry_policy: RetryPolicyModel | None = None,
        store_config: StoreConfigModel | None = None,
        triggers: Sequence[CronTrigger] | None = None,
        validation_timeout: int = 60,
        polling_interval: int = 1,
    ) -> dict[str, Any]:
        """Checks a graph and keeps it. Everything that is wrong with it is said at once, and then
        nothing is kept."""
        template: dict[str, Any] = {
            "secrets": dict(secrets),
            "nodes": [_plain(node._json()) for node in graph_nodes],
        }
        if retry_policy is not None:
            template["retry_policy"] = _plain(retry_policy._json())
        if store_config is not None:
            template["store_config"] = _plain(store_config._json())
        if triggers:
            template["triggers"] = [trigger._json() for trigger in triggers]
        try:
            _native.check_graph(json.dumps(template))
        except ValueError as error:
            raise InvalidRequest(f"Error validating graph template: {error}") from None
        _templates[self.namespace, graph_name] = template
        await self._put_triggers(graph_name, list(triggers or ()))
        return await self.get_graph(graph_name)

    async def get_graph(self, graph_name: str) -> dict[str, Any]:
        """A graph. Its secrets are told by their names."""
        template = self._template(graph_name)
        told = {"name": graph_name, "namespace": self.namespace, **template}
        told["secrets"] = {name: True for name in template["secrets"]}
        app = await _the_app()
        known = {made.name for made in app._activities}
        missing = {n["node_name"] for n in template["nodes"]} - known
        told["validation_status"] = "VALID"
        told["validation_errors"] = [f"Node {name} does not run in this process." for name in sorted(missing)]
        return told

    async def trigger(
        self,
        graph_name: str,
        inputs: dict[str, str] | None = None,
        store: dict[str, str] | None = None,
        start_delay: int = 0,
        *,
        run_id: str | None = None,
    ) -> dict[str, Any]:
        """Starts a run, with a delay in milliseconds. It is durable when this returns. With an id of
        your own, a repetition starts no second one."""
        input = self._start(graph_name, inputs, store, start_delay)
        id = run_id or f"{graph_name}-{uuid.uuid4().hex}"
        options = {"tags": {"namespace": self.namespace, "graph": graph_name}}
        if run_id is not None:
            options["request_id"] = run_id  # type: ignore[assignment]
        app = await _the_app()
        await app._ask(app._engine.start, id, _GRAPH, input, json.dumps(options), False)
        return {"status": "CREATED", "run_id": id}

    async def run(self, run_id: str) -> dict[str, Any]:
        """Waits for the end of a run, and answers with ``run_status`` and all of its states. A run
        that failed is no exception here: its states say what went wrong."""
        instance: Instance[Any] = (await _the_app()).instance(run_id)
        try:
            await instance.result()
        except NotFound:
            raise
        except ResurgamError:
            pass
        return await self.states(run_id)

    async def states(self, run_id: str) -> dict[str, Any]:
        """The states of a run so far, with every retry: ``run_status`` and ``states``."""
        app = await _the_app()
        told = json.loads(await app._ask(app._engine.graph_states, run_id))
        if "error" in told:
            raise NotFound(f"there is no run {run_id} of a graph: {told['error']}")
        listing: dict[str, Any] = told["listing"]
        return listing

    def _template(self, graph_name: str) -> dict[str, Any]:
        template = _templates.get((self.namespace, graph_name))
        if template is None:
            raise NotFound(
                f"there is no graph {graph_name} in namespace {self.namespace}: upsert it in this "
                "process"
            )
        return template

    def _start(
        self,
        graph_name: str,
        inputs: dict[str, str] | None,
        store: dict[str, str] | None,
        start_delay: int,
    ) -> str:
        if start_delay < 0:
            raise InvalidRequest(f"start_delay={start_delay}: milliseconds, 0 or more")
        template = json.dumps(self._template(graph_name))
        given = (json.dumps(inputs or {}), json.dumps(store or {}))
        try:
            run, _ = _native.start_graph(template, *given, start_delay / 1000, self._key)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        return str(run)

    async def _put_triggers(self, graph_name: str, triggers: list[CronTrigger]) -> None:
        """The schedules of a graph: those of its triggers, and no others."""
        app = await _the_app()
        prefix = f"ns/{self.namespace}/{graph_name}/"
        for number, trigger in enumerate(triggers):
            schedule = Schedule(cron=trigger.expression, zone=trigger.timezone, overlap="allow")
            input = self._start(graph_name, None, None, 0)
            text = schedule._json(f"{prefix}{number}")
            await app._ask(app._engine.schedule, text, _GRAPH, input, None, True)
        wanted = {f"{prefix}{number}" for number in range(len(triggers))}
        for known in await app.schedules():
            if known.id.startswith(prefix) and known.id not in wanted:
                await app.delete_schedule(known.id)


def _plain(value: Any) -> Any:
    """Without what is left out, which a template has defaults for."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return value


__all__ = ["Runtime", "StateManager", "new_secrets_key", "use"]
