#!/usr/bin/env python3
"""Runs Resurgam's Python package and the engines it is measured against in turn, and writes a table.

    bench/peers/python/compare.py --folder /var/tmp/compare > table.md

makes an environment in that folder with a wheel of ``python/`` (release build) and the peers from PyPI,
once. Every row is measured in several rounds, ours and theirs one after the other, each in a process and
on a SQLite file of its own, with the settings that each has by default. A figure is the median of the
rounds, and the ratio the median of the ratios of single rounds, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent.parent / "python"
PEERS = {"dbos": "dbos==3.4.0", "edda": "edda-framework==0.16.2", "duroxide": "duroxide==0.2.2"}


def environment(folder: pathlib.Path) -> str:
    """The Python of an environment with all engines, made where it is not there."""
    made = folder / "environment"
    python = made / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", made], check=True)
        wanted = [*PEERS.values(), "aiosqlite", str(PACKAGE)]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return str(python)


def one(python: str, engine: str, what: str, count: int, folder: pathlib.Path) -> float | None:
    """One figure; none when the engine ends with an error."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        command = [python, str(HERE / "load.py"), engine, what, str(count)]
        try:
            ended = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=900)
        except subprocess.TimeoutExpired:
            print(f"{engine}, {what} {count}: it does not end", file=sys.stderr)
            return None
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["?"])[-1]
        print(f"{engine}, {what} {count}: {last}", file=sys.stderr)
        return None
    (value,) = json.loads(ended.stdout.strip().splitlines()[-1]).values()
    return float(value)


def row(python: str, peer: str, what: str, count: int, rounds: int, folder: pathlib.Path) -> str:
    """Ours and theirs in turn, as a line of the table."""
    ours, theirs, ratios = [], [], []
    for _ in range(rounds):
        here = one(python, "resurgam", what, count, folder)
        there = one(python, peer, what, count, folder)
        if here is None or there is None:
            return f"| {what}, {count} | {peer} | | it failed | |"
        ours.append(here)
        theirs.append(there)
        ratios.append(there / here if what == "alone" else here / there)
    unit = "ms" if what == "alone" else "/s"
    here, there = statistics.median(ours), statistics.median(theirs)
    spread = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
    return f"| {what}, {count} | {peer} | {here:.1f} {unit} | {there:.1f} {unit} | {spread} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="on a disk that syncs")
    parser.add_argument("--python", help="a Python that has all engines already")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", type=int, default=50, help="workflows one after the other (50)")
    parser.add_argument("--at-once", type=int, default=200, help="workflows at once (200)")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    python = given.python or environment(given.folder)
    print("| load | peer | Resurgam | peer | times |\n| --- | --- | --- | --- | --- |")
    for what, count in (("alone", given.alone), ("at-once", given.at_once)):
        for peer in given.peers:
            print(row(python, peer, what, count, given.rounds, given.folder), flush=True)
    most = one(python, "resurgam", "at-once", 2_000, given.folder)
    print(f"| at-once, 2000 | none | {most or 0:.1f} /s | | |")


if __name__ == "__main__":
    main()
