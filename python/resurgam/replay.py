"""Replays recorded histories with today's code: ``python -m resurgam replay HISTORY... --module MODULE``.

A history is what ``App.export_history`` or ``resurgam history --json`` wrote. The code of its workflow
is run against it, and nothing else: no activity, no timer, no database. That is done by several
Pythons, each with another seed for the hashes of texts, so that code is found which depends on the
order of a set.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from . import _native
from ._advice import advised
from ._define import WORKFLOWS, Workflow
from ._failures import note_packages


def replay(history: str, *workflows: Workflow[..., Any]) -> str | None:
    """Runs the code of workflows, all that there are unless some are given, against a history.
    ``None`` when the code takes the same way; else where it does not, and what it asks for instead::

        assert replay(Path("histories/order-42.jsonl").read_text(), fulfil) is None
    """
    note_packages()
    turns = _native.Turns()
    builder = _native.Builder(_native.Port(), turns, logging.CRITICAL)
    known: Iterable[Workflow[..., Any]] = workflows or list(WORKFLOWS.values())
    for workflow in known:
        workflow._resolve()
        builder.workflow(workflow.name, workflow.version, workflow.make)
    if "resurgam.exosphere" in sys.modules:
        builder.graphs()
    try:
        return advised(builder.replay(history))
    finally:
        # Nobody takes turns of it: the coroutines that are left are closed here.
        turns.end()
        turns.run()


def main(files: Sequence[str], modules: Sequence[str], seeds: int) -> int:
    """Replays files with what modules define. The exit code is 1 when code takes another way."""
    if "RESURGAM_REPLAY_SEED" not in os.environ and seeds > 0:
        return max(_again(seed) for seed in range(seeds))
    for module in modules:
        _load(module)
    wrong = 0
    for file in files:
        found = replay(pathlib.Path(file).read_text())
        if found is not None:
            wrong = 1
            seed = os.environ.get("PYTHONHASHSEED", "")
            print(f"{file}, with PYTHONHASHSEED={seed}: {found}")
    if not wrong and os.environ.get("RESURGAM_REPLAY_SEED", "0") == "0":
        print(f"{len(files)} histories: the code takes the way that they say")
    return wrong


def _again(seed: int) -> int:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "RESURGAM_REPLAY_SEED": str(seed)}
    return subprocess.run(
        [sys.executable, "-m", "resurgam", *sys.argv[1:]], env=environment
    ).returncode


def _load(module: str) -> None:
    """A module by its name, or a file."""
    if not module.endswith(".py"):
        importlib.import_module(module)
        return
    spec = importlib.util.spec_from_file_location(pathlib.Path(module).stem, module)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    sys.path.insert(0, str(pathlib.Path(module).parent))
    spec.loader.exec_module(loaded)


__all__ = ["main", "replay"]
