"""Runs Edda's published examples with only the import lines changed, beside Edda itself.

``python edda_examples.py [PYTHON_WITH_EDDA]`` fetches them with pip, and never keeps them. The table
that it prints is in the guide for those who come from Edda.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WHY_NOT = {
    "message_passing": "channels are not offered",
    "long_running_loop": "channels are not offered",
    "with_outbox": "ctx.session and the outbox are not offered",
    "observability_with_logfire": "hooks are not offered; needs an account",
    "observability_with_opentelemetry": "hooks are not offered",
    "pydantic_rpc_integration": "a server, for a client that asks it",
    "event_waiting_app": "a server, for a client that posts to it",
}


def fetch(folder: str) -> pathlib.Path:
    """The folder with the examples. pip cannot make metadata of that archive, and leaves it there."""
    command = [sys.executable, "-m", "pip", "download", "--no-clean", "--no-deps", "--no-binary",
               ":all:", "edda-framework==0.16.2"]
    subprocess.run(command, cwd=folder, env={**os.environ, "TMPDIR": folder}, capture_output=True)
    found = sorted(pathlib.Path(folder).rglob("examples/simple_workflow.py"))
    if not found:
        sys.exit("the examples cannot be fetched")
    return found[0].parent


def run(python: str, source: str, name: str) -> tuple[int, str]:
    """Runs a program in a folder of its own: its exit code, and what it prints but ids and times."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, f"{name}.py")
        file.write_text(source)
        ended = subprocess.run([python, file], cwd=folder, capture_output=True, text=True, timeout=120)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|[0-9a-f]{32}", "ID", ended.stdout)
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    # What Edda prints about itself is not what the example prints.
    lines = [line for line in text.splitlines() if "Auto-registered compensation" not in line]
    return ended.returncode, "\n".join(lines)


def main(theirs: str) -> None:
    """Prints the table, and where the outputs differ."""
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(fetch(folder).glob("*.py"))
        for file in files:
            name = file.stem
            if name == "__init__":
                continue
            if name in WHY_NOT:
                print(f"| {name} | no: {WHY_NOT[name]} |")
                continue
            source = file.read_text()
            ours = re.sub(r"^( *from )edda\b", r"\1resurgam.edda", source, flags=re.MULTILINE)
            here, there = run(sys.executable, ours, name), run(theirs, source, name)
            same = "the same" if here == there else "differs"
            print(f"| {name} | exit code {here[0]} (Edda {there[0]}), {same} |")
            for line in difflib.unified_diff(
                there[1].splitlines(), here[1].splitlines(), "Edda", "Resurgam", lineterm="", n=0
            ):
                print("   ", line)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else sys.executable)
