"""What is named without running it."""

import textwrap
import unittest

from resurgam.lint import lint_source

SOURCE = """
import asyncio, random as chance, time, uuid
from datetime import datetime
import resurgam
from resurgam import workflow

@workflow
async def wrong(names):
    begun = time.time()
    at = datetime.now()
    chance.shuffle(names)
    key = uuid.uuid4()
    await asyncio.to_thread(print)
    for name in set(names):
        pass
    with open("x") as file:
        pass

@resurgam.workflow(name="other")
async def also():
    time.sleep(1)

async def elsewhere():
    return time.time()

@workflow
async def right():
    await asyncio.sleep(1)
    return resurgam.now()
"""


class Lint(unittest.TestCase):
    def test_each_is_named_with_what_to_write_instead(self) -> None:
        found = [str(finding) for finding in lint_source(textwrap.dedent(SOURCE), "f.py")]
        self.assertEqual(
            [line.split(": ", 1)[1] for line in found],
            [
                "the workflow wrong calls time.time: write resurgam.now()",
                "the workflow wrong calls datetime.datetime.now: write resurgam.now()",
                "the workflow wrong calls random.shuffle: write resurgam.random(), or ctx.rng() "
                "for more",
                "the workflow wrong calls uuid.uuid4: write resurgam.uuid4()",
                "the workflow wrong calls asyncio.to_thread: move it into an activity",
                "the workflow wrong goes through a set, whose order changes: sorted(..) it",
                "the workflow wrong calls open: move it into an activity",
                "the workflow also calls time.sleep: write await asyncio.sleep(..), which is a "
                "durable timer",
            ],
        )
        self.assertTrue(found[0].startswith("f.py:9:13: "), found[0])


if __name__ == "__main__":
    unittest.main()
