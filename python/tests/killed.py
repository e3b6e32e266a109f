"""The program of ``test_kill.py``: chains of calls, with a journal outside as the witness.

``python killed.py DATABASE JOURNAL COUNT`` starts as many instances, unless they are there, and waits
for all of them. With ``LINES DELAY`` behind, a thread kills the process that many seconds after it has
written as many lines: a watch cannot be late for that, however fast the machine. With no line it is
killed so long after it has begun to open the database.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from typing import Optional

from resurgam import ActivityContext, AlreadyExists, App, Instance, RetryPolicy, activity, workflow

STEPS = 4
PATIENT = RetryPolicy.fixed(0.02).max_attempts(3).jitter("none")
_journal = -1


class End:
    """The kill that this process is to die of."""

    def __init__(self, lines: int, delay: float) -> None:
        self._lines, self._delay = lines, delay
        self._lock = threading.Lock()
        self._killer = threading.Thread(target=self._kill)
        if lines == 0:
            self._killer.start()

    def wrote_a_line(self) -> None:
        with self._lock:
            self._lines -= 1
            if self._lines == 0:
                self._killer.start()

    def wait(self) -> None:
        """Comes back only if the lines were too few."""
        if self._killer.is_alive():
            self._killer.join()

    def _kill(self) -> None:
        time.sleep(self._delay)
        os.kill(os.getpid(), signal.SIGKILL)


_end: Optional[End] = None


def note(*words: object) -> None:
    """One line, with one write: a kill leaves it whole or not there."""
    os.write(_journal, (" ".join(map(str, words)) + "\n").encode())
    if _end is not None:
        _end.wrote_a_line()


@activity(retry=PATIENT)
async def step(ctx: ActivityContext, chain: str, number: int) -> int:
    note("begins", chain, number, ctx.attempt)
    await asyncio.sleep(0.003)
    # Twice at most: lost attempts have numbers, too, and a call that fails three times is over.
    if ctx.attempt <= 6 and (number + ctx.attempt + len(chain)) % 3 == 0:
        note("fails", chain, number, ctx.attempt)
        raise ConnectionError("no answer")
    note("ends", chain, number, ctx.attempt)
    return number


@activity(retry=PATIENT)
def plain(ctx: ActivityContext, chain: str, number: int) -> int:
    note("begins", chain, number, ctx.attempt)
    note("ends", chain, number, ctx.attempt)
    return number


@workflow
async def chain(name: str) -> int:
    total = 0
    for number in range(STEPS):
        call = step if number % 2 == 0 else plain
        total += await call(name, number)
        await asyncio.sleep(0.005)
    return total


async def over(run: Instance[int]) -> None:
    """Notes that somebody was told the result: from here on nothing of the chain begins."""
    try:
        total = await run.result()
    except Exception:
        print(run.id, await run.attempts(), file=sys.stderr)
        raise
    assert total == sum(range(STEPS)), total
    note("over", run.id, STEPS, 0)


async def main(database: str, count: int) -> None:
    async with App(database) as app:
        runs = []
        for number in range(count):
            try:
                runs.append(await app.start(f"chain-{number}", chain, f"chain-{number}"))
            except AlreadyExists:
                runs.append(app.instance(f"chain-{number}", chain))
        for run in asyncio.as_completed([over(run) for run in runs]):
            await run
        if _end is not None:
            _end.wait()


if __name__ == "__main__":
    _journal = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if len(sys.argv) > 4:
        _end = End(int(sys.argv[4]), float(sys.argv[5]))
    asyncio.run(main(sys.argv[1], int(sys.argv[3])))
