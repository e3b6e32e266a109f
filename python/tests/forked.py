"""The programs of ``test_fork.py``: ``python forked.py WHAT FILE``."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import Callable

from resurgam import App, ResurgamError, activity, workflow


@activity
async def double(number: int) -> int:
    return 2 * number


@activity
def half(number: int) -> int:
    return number // 2


@workflow
async def there_and_back(number: int) -> int:
    return await half(await double(number))


def fork(child: Callable[[], None]) -> int:
    """A child that does this, and ends with 0 when it has done so in a minute."""
    number = os.fork()
    if number == 0:
        signal.alarm(60)
        try:
            child()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return number


def ended(child: int) -> None:
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status


async def works(file: str, id: str) -> None:
    async with App(file) as app:
        assert await app.run(id, there_and_back, 21) == 21


async def opens_its_own(file: str) -> None:
    """The parent has an app; its child opens another file, and asks the parent's app in vain."""
    async with App(file) as app:
        def child() -> None:
            try:
                app._engine
            except ResurgamError as error:
                assert "post_fork" in str(error)
            asyncio.run(works(f"{file}.child", "in-the-child"))

        ended(fork(child))
        assert await app.run("in-the-parent", there_and_back, 4) == 4


async def opens_after_one_was_stopped(file: str) -> None:
    """The threads of an app that was stopped are not in the child either."""
    await works(file, "before")
    ended(fork(lambda: asyncio.run(works(file, "in-the-child"))))
    await works(file, "after")


async def opens_the_same(file: str) -> None:
    """SQLite cannot open a file twice across a fork; the child is told so."""
    async with App(file) as app:
        def child() -> None:
            try:
                asyncio.run(works(f"sqlite:///{file}", "x"))
            except ResurgamError as error:
                assert "spawn" in str(error), error
                return
            raise AssertionError("it was opened")

        ended(fork(child))
        assert await app.run("still", there_and_back, 4) == 4


async def preloads(file: str) -> None:
    """A server imports everything, forks its workers, and each opens the app."""
    children = [fork(lambda n=n: asyncio.run(works(file, f"worker-{n}"))) for n in range(3)]  # type: ignore[misc]
    for child in children:
        ended(child)


async def leaves_an_orphan(file: str) -> None:
    """Says which child outlives it, and waits to be killed."""
    async with App(f"sqlite:///{file}" if not file.startswith("postgres") else file):
        child = fork(lambda: signal.pause())
        print(child, flush=True)
        await asyncio.sleep(60)


def peers(path: str) -> int:
    """How many connections to a server this process has, by the number of its port."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(number))) as opened:
                found += path in str(opened.getpeername())
        except OSError:
            continue
    return found


async def keeps_no_connection(url: str) -> None:
    """A child has none of the sockets of its parent's engine, and those of the program."""
    port = re.findall(r":(\d+)/", url)[0]
    ours, theirs = socket.socketpair()
    async with App(url) as app:
        assert peers(port) > 0

        def child() -> None:
            assert peers(port) == 0, peers(port)
            ours.sendall(b"still open")
            asyncio.run(works(url, "in-the-child"))

        # The parent works on: some of what the child starts is done there.
        await asyncio.to_thread(ended, fork(child))
        assert theirs.recv(20) == b"still open"
        assert await app.run("in-the-parent", there_and_back, 4) == 4


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](sys.argv[2]))
