"""The package and the examples pass ``mypy --strict``, where mypy is there."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parent.parent

GUIDES = ["python.md", "coming-from/edda.md", "coming-from/exosphere.md", "coming-from/rappel.md"]

USES = """
import asyncio
from dataclasses import dataclass
from resurgam import ActivityContext, App, Bound, Instance, TestApp, activity, signal, workflow

@dataclass
class Order:
    id: str

@activity(timeout=10)
async def charge(ctx: ActivityContext, order: Order, cents: int = 0) -> str:
    return order.id

@activity
def resize(path: str) -> int:
    return 1

@workflow
async def fulfil(order: Order) -> list[int]:
    receipt: str = await charge.options(compensate=lambda r: resize.bind(r))(order, cents=5)
    first, second = await asyncio.gather(resize("a"), resize(path=receipt))
    number: int = await signal("go", int)
    return [first, second, number]

async def main(app: App) -> None:
    run: Instance[list[int]] = await app.start("a", fulfil, Order("a"))
    total: int = sum(await run.result())
    await app.start("a", fulfil, "no order")  # type: ignore[arg-type]
    undo: Bound = resize.bind(path="x")
    resize.bind(3)  # type: ignore[arg-type]
    print(total, undo)
"""


@unittest.skipUnless(
    importlib.util.find_spec("mypy") and importlib.util.find_spec("pytest"),
    "mypy and pytest are not there",
)
class Types(unittest.TestCase):
    def test_the_package_the_examples_and_their_users_are_typed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            uses = pathlib.Path(folder, "uses.py")
            uses.write_text(USES)
            checked = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, "-p", "resurgam"],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            files = [str(uses), str(ROOT / "examples" / "letters.py")]
            checked = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, *files],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_what_the_guides_show_is_typed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for guide in GUIDES:
                text = (ROOT.parent / "docs" / guide).read_text()
                blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
                # The programs of other systems stand beside ours.
                for number, block in enumerate(b for b in blocks if "resurgam" in b):
                    name = pathlib.Path(guide).stem.replace("-", "_")
                    files.append(pathlib.Path(folder, f"{name}_{number}.py"))
                    files[-1].write_text(block)
            self.assertGreater(len(files), 8)
            checked = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, *map(str, files)],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
