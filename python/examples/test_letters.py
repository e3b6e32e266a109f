"""The program of the guide, in virtual time."""

import asyncio
import os
import tempfile
import unittest

from letters import welcome, write

from resurgam import TestApp


class Letters(unittest.TestCase):
    def test_the_second_letter_comes_although_there_is_no_folder_at_first(self) -> None:
        async def test() -> None:
            async with TestApp() as app:
                run = await app.start("welcome-ada", welcome, "ada")
                await app.advance(0.05)  # the folder is missing: the first letter is tried again
                os.mkdir("outbox")
                assert await run.result() == "ada-2.txt"
                assert app.attempts(write) > 2

        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                asyncio.run(test())
            finally:
                os.chdir(before)


if __name__ == "__main__":
    unittest.main()
