"""Graphs of nodes in Exosphere's words, in process."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import resurgam
from resurgam import TestApp
from resurgam.exosphere import (
    BaseNode,
    CronTrigger,
    GraphNodeModel,
    PruneSignal,
    ReQueueAfterSignal,
    RetryPolicyModel,
    RetryStrategyEnum,
    Runtime,
    StateManager,
    StoreConfigModel,
    UnitesModel,
    UnitesStrategyEnum,
    new_secrets_key,
    use,
)

KEY = new_secrets_key()
fails: dict[str, int] = {}
requeues: list[int] = []
seen: list[Any] = []


class ListPhotos(BaseNode):
    @dataclasses.dataclass
    class Inputs:
        count: str

    @dataclasses.dataclass
    class Outputs:
        photo: str

    async def execute(self) -> list[Any]:
        return [self.Outputs(photo=f"p{n}") for n in range(int(self.inputs.count))]


class Shrink(BaseNode):
    @dataclasses.dataclass
    class Inputs:
        photo: str
        size: str = "small"

    async def execute(self) -> dict[str, str]:
        photo = self.inputs.photo
        if fails.get(photo, 0) > 0:
            fails[photo] -= 1
            raise ConnectionError(f"no answer for {photo}")
        if photo == "p-pruned":
            raise PruneSignal({"why": "empty"})
        if photo == "p-later" and len(requeues) < 2:
            requeues.append(1)
            raise ReQueueAfterSignal(dt.timedelta(seconds=5))
        return {"thumbnail": f"{photo}-{self.inputs.size}"}


class Album(BaseNode):
    @dataclasses.dataclass
    class Inputs:
        photos: str

    async def execute(self) -> dict[str, Any]:
        return {"photos": json.loads(self.inputs.photos)}


class Upload(BaseNode):
    @dataclasses.dataclass
    class Secrets:
        api_key: str

    async def execute(self) -> None:
        seen.append((self.secrets, self.inputs))


runtime = Runtime(
    namespace="photos", name="workers", nodes=[ListPhotos, Shrink, Album, Upload], secrets_key=KEY
)


def node(name: str, id: str, inputs: dict[str, str], *after: str, **more: Any) -> GraphNodeModel:
    return GraphNodeModel(
        node_name=name, namespace="photos", identifier=id, inputs=inputs,
        next_nodes=list(after) or None, **more,
    )


class Exosphere(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.app = TestApp()
        use(self.app)
        await self.app.open()
        self.manager = StateManager(namespace="photos", secrets_key=KEY)
        fails.clear()
        requeues.clear()
        seen.clear()

    async def asyncTearDown(self) -> None:
        await self.app.stop()
        use(None)

    async def one(self, photo: str, policy: RetryPolicyModel | None = None) -> Any:
        """A run of a graph of one node."""
        shrink = [node("Shrink", "shrink", {"photo": photo})]
        await self.manager.upsert_graph("one", shrink, {}, policy)
        started = await self.manager.trigger("one")
        self.assertEqual(started["status"], "CREATED")
        return await self.manager.run(started["run_id"])

    async def test_branches_fan_out_and_are_united_once(self) -> None:
        nodes = [
            node("Shrink", "begin", {"photo": "first"}, "list"),
            node("ListPhotos", "list", {"count": "3"}, "shrink"),
            node("Shrink", "shrink", {"photo": "${{ list.outputs.photo }}"}, "album"),
            node(
                "Album", "album", {"photos": "${{ shrink.outputs.thumbnail[*] }}"},
                unites=UnitesModel("begin", UnitesStrategyEnum.ALL_SUCCESS),
            ),
        ]
        fails["p1"] = 2
        told = await self.manager.upsert_graph("album", nodes, {})
        self.assertEqual((told["validation_status"], told["validation_errors"]), ("VALID", []))
        run = (await self.manager.trigger("album"))["run_id"]
        listing = await self.manager.run(run)
        self.assertEqual(listing["run_status"], "SUCCESS")
        states = listing["states"]
        albums = [state for state in states if state["identifier"] == "album"]
        self.assertEqual([a["outputs"] for a in albums], [{"photos": ["p0-small", "p1-small", "p2-small"]}])
        shrunk = [s for s in states if s["identifier"] == "shrink" and s["state"] == "SUCCESS"]
        self.assertEqual(len(shrunk), 3)
        retried = [s["retry_count"] for s in states if s["state"] == "RETRY_CREATED"]
        self.assertEqual(sorted(retried), [0, 1])

    async def test_retries_are_bounded_and_delayed_by_the_policy_of_the_graph(self) -> None:
        fails["p"] = 99
        policy = RetryPolicyModel(
            max_retries=3, strategy=RetryStrategyEnum.LINEAR, backoff_factor=1000
        )
        listing = await self.one("p", policy)
        self.assertEqual(listing["run_status"], "FAILED")
        states = listing["states"]
        self.assertEqual([s["state"] for s in states], ["RETRY_CREATED"] * 3 + ["ERRORED"])
        self.assertEqual([s["retry_count"] for s in states], [0, 1, 2, 3])
        self.assertEqual(states[-1]["error"], "no answer for p")
        waits = [s["enqueue_after_ms"] - s["created_at_ms"] for s in states[1:]]
        self.assertEqual(waits, [1000, 2000, 3000])

    async def test_a_pruned_branch_ends_and_is_no_failure(self) -> None:
        listing = await self.one("p-pruned")
        self.assertEqual(listing["run_status"], "SUCCESS")
        self.assertEqual([s["state"] for s in listing["states"]], ["PRUNED"])

    async def test_a_node_that_is_put_back_counts_no_failure(self) -> None:
        begin = self.app.now()
        fails["p-later"] = 1
        listing = await self.one("p-later", RetryPolicyModel(max_retries=1, backoff_factor=100))
        self.assertEqual(listing["run_status"], "SUCCESS")
        self.assertEqual([s["retry_count"] for s in listing["states"]], [0, 1])
        self.assertEqual(len(requeues), 2)
        self.assertGreaterEqual(self.app.now() - begin, dt.timedelta(seconds=10.1))

    async def test_values_of_the_store_go_into_inputs(self) -> None:
        nodes = [node("Shrink", "s", {"photo": "${{ store.photo }}", "size": "${{ store.size }}"})]
        store = StoreConfigModel(required_keys=["photo"], default_values={"size": "large"})
        await self.manager.upsert_graph("stored", nodes, {}, store_config=store)
        with self.assertRaisesRegex(resurgam.InvalidRequest, "Missing store keys: {'photo'}"):
            await self.manager.trigger("stored")
        run = (await self.manager.trigger("stored", store={"photo": "cat"}))["run_id"]
        states = (await self.manager.run(run))["states"]
        self.assertEqual(states[0]["outputs"], {"thumbnail": "cat-large"})

    async def test_secrets_reach_the_node_and_nobody_else(self) -> None:
        nodes = [node("Upload", "up", {"to": "there"})]
        told = await self.manager.upsert_graph("secret", nodes, {"api_key": "sesame", "other": "x"})
        self.assertEqual(told["secrets"], {"api_key": True, "other": True})
        run = (await self.manager.trigger("secret"))["run_id"]
        self.assertEqual((await self.manager.run(run))["run_status"], "SUCCESS")
        self.assertEqual(seen, [(Upload.Secrets("sesame"), {"to": "there"})])
        self.assertNotIn("sesame", (await self.app.export_history(run)) or "")
        with self.assertRaisesRegex(resurgam.InvalidRequest, "there is no key"):
            keyless = StateManager(namespace="photos")
            await keyless.trigger("secret")

    async def test_everything_that_is_wrong_with_a_graph_is_said_at_once(self) -> None:
        nodes = [node("Shrink", "a", {"photo": "${{ b.outputs.x }}"}, "zz"), node("Shrink", "b", {})]
        with self.assertRaises(resurgam.InvalidRequest) as raised:
            await self.manager.upsert_graph("wrong", nodes, {}, RetryPolicyModel(exponent=0))
        text = str(raised.exception)
        self.assertIn("exponent", text)
        self.assertIn("zz does not exist in the graph", text)
        with self.assertRaises(resurgam.NotFound):
            await self.manager.trigger("wrong")

    async def test_a_trigger_starts_the_graph_by_the_clock_until_it_is_removed(self) -> None:
        nodes = [node("Shrink", "s", {"photo": "tick"})]
        cron = [CronTrigger("*/10 * * * *", "Europe/Berlin")]
        await self.manager.upsert_graph("ticks", nodes, {}, triggers=cron)
        await self.app.advance(1_800)
        started = await self.app.list(schedule="ns/photos/ticks/0")
        self.assertEqual(len(started), 3)
        await self.manager.upsert_graph("ticks", nodes, {})
        self.assertEqual(await self.app.schedules(), [])

    async def test_a_run_id_of_ones_own_starts_one_run(self) -> None:
        await self.manager.upsert_graph("one", [node("Shrink", "s", {"photo": "x"})], {})
        for _ in range(2):
            await self.manager.trigger("one", run_id="order-42")
        self.assertEqual((await self.manager.run("order-42"))["run_status"], "SUCCESS")
        self.assertEqual(self.app.attempts("Shrink"), 1)

    async def test_a_runtime_that_comes_too_late_is_an_error(self) -> None:
        class Late(BaseNode):
            async def execute(self) -> None: ...

        late = Runtime(namespace="photos", name="late", nodes=[Late])
        with self.assertRaisesRegex(resurgam.ResurgamError, "make all runtimes first"):
            await late.run()

    def test_only_nodes_run_in_a_runtime(self) -> None:
        with self.assertRaisesRegex(TypeError, "a class of BaseNode"):
            Runtime(namespace="x", name="x", nodes=[dict])  # type: ignore[list-item]

    def test_a_program_with_a_runtime_of_its_own_works_on_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "RESURGAM_DATABASE": os.path.join(folder, "graphs.db")}
            command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(path=[p for p in sys.path if p])]
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=100, env=environment
            )
        self.assertEqual(ended.stdout, "SUCCESS HELLO\n", ended.stderr)


PROGRAM = """
import asyncio, dataclasses, sys
sys.path[:0] = {path!r}
from resurgam.exosphere import BaseNode, GraphNodeModel, Runtime, StateManager

class Shout(BaseNode):
    @dataclasses.dataclass
    class Inputs:
        text: str

    async def execute(self):
        return dict(text=self.inputs.text.upper())

async def main():
    working = Runtime(namespace="demo", name="demo", nodes=[Shout]).start()
    manager = StateManager(namespace="demo")
    shout = GraphNodeModel(
        node_name="Shout", namespace="demo", identifier="shout", inputs=dict(text="hello"),
        next_nodes=[],
    )
    await manager.upsert_graph("shout", [shout], {{}})
    run = await manager.trigger("shout")
    ended = await manager.run(run["run_id"])
    print(ended["run_status"], ended["states"][0]["outputs"]["text"])
    working.cancel()
    await asyncio.wait([working])

asyncio.run(main())
"""


if __name__ == "__main__":
    unittest.main()
