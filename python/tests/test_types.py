"""The package, the examples and the pages pass ``mypy --strict`` and pyright, where those are there."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parent.parent

PAGES = [
    "README.md",
    "docs/python.md",
    "docs/coming-from/edda.md",
    "docs/coming-from/exosphere.md",
    "docs/coming-from/rappel.md",
]
EXAMPLES = ["letters.py", "test_letters.py"]

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


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def blocks(folder: str) -> list[str]:
    """The Python programs of the guides and of the README, as files: those of ours."""
    files = []
    for page in PAGES:
        text = (ROOT.parent / page).read_text()
        found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        # The programs of other systems stand beside ours.
        for number, block in enumerate(b for b in found if "resurgam" in b):
            name = re.sub(r"\W", "_", str(pathlib.PurePath(page).with_suffix("")))
            files.append(pathlib.Path(folder, f"{name}_{number}.py"))
            files[-1].write_text(block)
    return [str(file) for file in files]


class Types(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        uses = pathlib.Path(self.folder, "uses.py")
        uses.write_text(USES)
        self.uses = str(uses)
        self.blocks = blocks(self.folder)
        self.assertGreater(len(self.blocks), 9)

    def passes(self, *command: str) -> None:
        checked = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
        )
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    @unittest.skipUnless(has("mypy") and has("pytest"), "mypy and pytest are not there")
    def test_mypy_passes_on_the_package_the_examples_and_the_pages(self) -> None:
        strict = ["mypy", "--strict", "--cache-dir", self.folder]
        self.passes(*strict, "-p", "resurgam")
        # The example's test imports the example by its name.
        self.passes(*strict, self.uses, *(str(ROOT / "examples" / name) for name in EXAMPLES))
        self.passes(*strict, *self.blocks)

    @unittest.skipUnless(has("pyright") and has("pytest"), "pyright and pytest are not there")
    def test_pyright_passes_on_the_package_the_examples_and_the_pages(self) -> None:
        project = pathlib.Path(self.folder, "pyrightconfig.json")
        settings = {
            "include": [str(ROOT / "resurgam"), str(ROOT / "examples"), self.folder],
            "extraPaths": [str(ROOT), str(ROOT / "examples")],
            "reportMissingModuleSource": "none",
            # Where it expects an error, so does mypy, in whose words the comment is.
            "enableTypeIgnoreComments": True,
        }
        project.write_text(json.dumps(settings))
        self.passes("pyright", "--pythonpath", sys.executable, "-p", str(project))


if __name__ == "__main__":
    unittest.main()
