"""Writes two letters to somebody new, the second one twenty seconds after the first."""

import asyncio
import pathlib
import sys

from resurgam import AlreadyExists, App, TerminalError, activity, workflow


@activity
def write(file: str, text: str) -> str:
    """What does the work. Its exceptions are tried again by policy."""
    if not text:
        raise TerminalError("there is nothing to write")  # never again
    pathlib.Path("outbox", file).write_text(text)  # any exception: tried again
    return file


@workflow
async def welcome(name: str) -> str:
    """What is remembered. It only decides, and waits for activities and timers."""
    await write(f"{name}-1.txt", f"Welcome, {name}!")
    await asyncio.sleep(20)  # takes no thread, and outlives the process
    return await write(f"{name}-2.txt", "Still with us?")


async def main(name: str) -> None:
    async with App("letters.db") as app:
        try:
            run = await app.start(f"welcome-{name}", welcome, name)
            print(f"{run.id} is started")  # and on the disk
        except AlreadyExists:
            run = app.instance(f"welcome-{name}", welcome)
            print(f"{run.id} was started before")
        print("the last letter is", await run.result())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ada"))
