"""Builds a wheel, installs it into an empty environment, and uses it there.

``python wheel.py [--profile PROFILE]``: ``release`` is what is handed out, ``dev`` is built in a third
of the time. Needs a network for maturin, and a Rust toolchain.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).parent.parent

PROGRAM = """
import asyncio, os, resurgam
from resurgam import App, TestApp, activity, workflow
assert "site-packages" in resurgam.__file__, resurgam.__file__

@activity
def greet(name: str) -> str:
    return f"hello {name}"

@workflow
async def welcome(name: str) -> str:
    await asyncio.sleep(0.01)
    return await greet(name)

async def main() -> None:
    async with App("app.db") as app:
        assert await app.run("w", welcome, "Ada") == "hello Ada"
    async with TestApp() as app:
        assert await app.run("w", welcome, "Ada") == "hello Ada"
    import resurgam.edda, resurgam.exosphere, resurgam.rappel, resurgam.remote
    assert os.path.exists(os.path.join(os.path.dirname(resurgam.__file__), "py.typed"))
    print("the wheel works")

asyncio.run(main())
"""


def main(profile: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tools, empty = pathlib.Path(folder, "tools"), pathlib.Path(folder, "empty")
        venv.create(tools, with_pip=True)
        venv.create(empty, with_pip=True)
        pip = [str(tools / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "maturin>=1.9,<2"], check=True)
        wheels = pathlib.Path(folder, "wheels")
        maturin = [str(tools / "bin" / "maturin"), "build", "--locked", "--profile", profile]
        inside = str(empty / "bin" / "python")
        subprocess.run([*maturin, "--out", str(wheels), "-i", inside], cwd=ROOT, check=True)
        (wheel,) = wheels.glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        assert "cp311-abi3" in wheel.name, wheel.name
        # No index: it has no dependencies.
        install = [inside, "-m", "pip", "install", "--quiet", "--no-index", str(wheel)]
        subprocess.run(install, check=True)
        subprocess.run([inside, "-c", PROGRAM], cwd=folder, check=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[1] if arguments[:1] == ["--profile"] else "release")
