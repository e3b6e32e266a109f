#!/usr/bin/env python3
"""What a Python thread that is busy all the time costs the engine in the same process.

    python bench/peers/python/gil.py FOLDER > table.md

with a Python that has the package. The folder is on a disk that syncs. In turn, with a thread that
computes and without one:

- workflows of five activities, one after the other, in switch intervals of the interpreter: that is what
  each hand-over of its lock costs while somebody else computes. At least six are needed: five attempts
  on the event loop, and the answer;
- what needs no lock: a call whose attempts hang is cut short by a timeout, tried again after a delay,
  and so on. How late each attempt ended and the next one began is what timers, commits and the start
  of attempts took together.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from resurgam import App, RetryPolicy, activity, workflow

STEPS = 5
TIMEOUT, DELAY = 0.02, 0.01


@activity
async def step(number: int) -> int:
    return number


@workflow
async def five() -> int:
    return sum([await step(number) for number in range(STEPS)])


@activity(timeout=TIMEOUT)
async def hangs() -> None:
    await asyncio.sleep(3600)


@workflow
async def tries(attempts: int) -> None:
    policy = RetryPolicy.fixed(DELAY).max_attempts(attempts).jitter("none")
    try:
        await hangs.options(retry=policy)()
    except TimeoutError:
        pass


@contextlib.contextmanager
def busy(threads: int) -> Iterator[None]:
    """Threads that compute meanwhile."""
    stop = threading.Event()

    def computes() -> None:
        number = 0
        while not stop.is_set():
            number += 1

    running = [threading.Thread(target=computes) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in running:
            thread.join()


async def workflows(app: App, name: str, count: int) -> list[float]:
    """How long each of them took, in seconds."""
    times = []
    for number in range(count):
        begun = time.perf_counter()
        await app.run(f"five-{name}-{number}", five)
        times.append(time.perf_counter() - begun)
    return times


async def lateness(app: App, name: str, attempts: int) -> tuple[list[float], list[float]]:
    """How much later than due attempts ended, and began, in seconds."""
    run = await app.start(f"tries-{name}", tries, attempts)
    await run.result()
    rows = sorted(await run.attempts(), key=lambda row: row.attempt)
    ended = [(row.ended_at - row.started_at).total_seconds() - TIMEOUT for row in rows]
    pairs = zip(rows, rows[1:])
    began = [(after.started_at - row.ended_at).total_seconds() - DELAY for row, after in pairs]
    return ended, began


def told(times: list[float]) -> str:
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"{statistics.median(ordered) * 1000:.1f} ms | {p99 * 1000:.1f} ms"


async def main(folder: str) -> None:
    interval = sys.getswitchinterval()
    print(f"load of the machine {os.getloadavg()[0]:.1f}, switch interval {interval * 1000:.0f} ms\n")
    print("| what | busy threads | p50 | p99 |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(dir=folder) as place:
        async with App(pathlib.Path(place, "gil.db")) as app:
            await workflows(app, "warm-up", 5)
            medians = {}
            for threads in (0, 1):
                with busy(threads):
                    times = await workflows(app, str(threads), 100)
                    ended, began = await lateness(app, str(threads), 200)
                medians[threads] = statistics.median(times)
                print(f"| a workflow of five | {threads} | {told(times)} |")
                print(f"| an attempt ends late | {threads} | {told(ended)} |")
                print(f"| the next one begins late | {threads} | {told(began)} |", flush=True)
    print(f"\nswitch intervals for a workflow of five: {medians[1] / interval:.1f}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
