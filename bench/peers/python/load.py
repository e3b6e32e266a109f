"""The load of ``compare.py`` on one engine, in a process and a folder of its own.

``python load.py ENGINE alone|at-once COUNT`` prints JSON: ``p50_ms`` of workflows that run one after the
other, or ``per_second`` of so many that are started at once. A workflow calls five activities, one
after the other; an activity returns its number. Every engine is on a SQLite file in the current folder.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

STEPS = 5
WARM_UP = 3
Run = Callable[[str], Awaitable[None]]


async def measure(run: Run, what: str, count: int) -> dict[str, float]:
    """Runs as many workflows, and says how long they took."""
    for number in range(WARM_UP):
        await run(f"warm-up-{number}")
    if what == "alone":
        times = []
        for number in range(count):
            begun = time.perf_counter()
            await run(f"alone-{number}")
            times.append(time.perf_counter() - begun)
        return {"p50_ms": statistics.median(times) * 1000}
    begun = time.perf_counter()
    await asyncio.gather(*(run(f"at-once-{number}") for number in range(count)))
    return {"per_second": count / (time.perf_counter() - begun)}


async def resurgam(what: str, count: int) -> dict[str, float]:
    from resurgam import App, activity, workflow

    @activity
    async def step(number: int) -> int:
        return number

    @workflow
    async def five() -> int:
        return sum([await step(number) for number in range(STEPS)])

    async with App("resurgam.db") as app:
        async def run(id: str) -> None:
            assert await app.run(id, five) == 10

        return await measure(run, what, count)


async def edda(what: str, count: int) -> dict[str, float]:
    from edda import EddaApp, WorkflowContext, activity, workflow

    @activity
    async def step(ctx: WorkflowContext, number: int) -> int:
        return number

    @workflow
    async def five(ctx: WorkflowContext) -> int:
        return sum([await step(ctx, number) for number in range(STEPS)])

    app = EddaApp(service_name="bench", db_url="sqlite:///edda.db")
    await app.initialize()
    try:
        async def run(id: str) -> None:
            # It is over when this returns: nothing in it waits.
            instance = await app.storage.get_instance(await five.start())
            assert instance["status"] == "completed", instance

        return await measure(run, what, count)
    finally:
        await app.shutdown()


async def dbos(what: str, count: int) -> dict[str, float]:
    from dbos import DBOS, SetWorkflowID

    DBOS(config={"name": "bench", "system_database_url": "sqlite:///dbos.sqlite",
                 "log_level": "WARNING"})

    @DBOS.step()
    async def step(number: int) -> int:
        return number

    @DBOS.workflow()
    async def five() -> int:
        return sum([await step(number) for number in range(STEPS)])

    DBOS.launch()
    try:
        async def run(id: str) -> None:
            with SetWorkflowID(id):
                handle = await DBOS.start_workflow_async(five)
            assert await handle.get_result() == 10

        return await measure(run, what, count)
    finally:
        DBOS.destroy()


async def duroxide(what: str, count: int) -> dict[str, float]:
    from duroxide import Client, Runtime, SqliteProvider

    provider = SqliteProvider.open("sqlite:duroxide.db?mode=rwc")
    runtime = Runtime(provider)
    runtime.register_activity("step", lambda ctx, number: number)

    def five(ctx: object, input: object) -> object:
        total = 0
        for number in range(STEPS):
            total += yield ctx.schedule_activity("step", number)  # type: ignore[attr-defined]
        return total

    runtime.register_orchestration("five", five)
    started = threading.Thread(target=runtime.start, daemon=True)
    started.start()
    client = Client(provider)
    # Its client blocks; each wait has a thread, so that all of them wait at once.
    with ThreadPoolExecutor(max_workers=max(8, count if what == "at-once" else 8)) as threads:
        def run_one(id: str) -> None:
            client.start_orchestration(id, "five", None)
            ended = client.wait_for_orchestration(id, 600_000)
            assert str(ended.status).lower() == "completed", ended

        async def run(id: str) -> None:
            await asyncio.get_running_loop().run_in_executor(threads, run_one, id)

        answer = await measure(run, what, count)
    runtime.shutdown(1_000)
    return answer


ENGINES = {"resurgam": resurgam, "dbos": dbos, "edda": edda, "duroxide": duroxide}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(ENGINES[sys.argv[1]](sys.argv[2], int(sys.argv[3])))), flush=True)
