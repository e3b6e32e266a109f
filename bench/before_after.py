#!/usr/bin/env python3
"""Compares two builds of the benchmark: what a step costs before and after a change.

    bench/before_after.py instructions BEFORE AFTER --folder /var/tmp/compare > table.md
    bench/before_after.py times BEFORE AFTER --folder /var/tmp/compare --postgres URL > table.md

BEFORE and AFTER are two programs `resurgam-bench`. They are run in turn, round after round, so that
whatever else the machine does meets both. A figure is the median of the rounds, and the ratio the
median of the ratios of single rounds, with the smallest and the largest beside it. For instructions it
is after by before, so less is better; for times it is how many times as fast the second program is.
Without --postgres the rows on PostgreSQL are left out. With --after-with, the second program gets
arguments that the first does not: `BENCH BENCH --after-with=--gate --only chain` says what a gate costs;
with --before-with the first one gets some. `gated` counts the steps of `chain` and of `latency` beside calls
that wait behind a shut gate; a million of them beside none is
`BENCH BENCH --before-with=--waiting=0 --after-with=--waiting=1000000 --only gated`.

`instructions` counts with valgrind those of our own process; a server's are not among them. Each load is
run in two sizes and the difference is divided by the steps, so that start-up drops out. A busy machine
does not matter much. It matters for `times`.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys


class Load:
    """A mode of the benchmark, in a small and a large size for counting and in one for the clock."""

    def __init__(self, mode, size, small, large, timed, figure, steps=1, fixed=(), name=None):
        self.mode, self.size, self.fixed, self.name = mode, size, list(fixed), name or mode
        self.small, self.large, self.timed = small, large, timed
        self.figure, self.steps = figure, steps

    def arguments(self, size):
        return [self.mode, f"--{self.size}", str(size), *self.fixed]


# In `retries`, a step is an attempt that becomes due. The clock decides how many there are in a second,
# so the figure is how late they begin. So many that what a node does by the clock does not matter.
RETRIES = ["--pending", "5000", "--rate", "1000"]
LOADS = [
    Load("chain", "instances", 200, 1000, 30000, "steps_per_s", steps=5),
    Load("latency", "reps", 50, 250, 1000, "p50_ms", steps=5),
    Load("growth", "activities", 300, 1300, 10000, "steps_per_s"),
    Load("fanout", "width", 1000, 5000, 50000, "steps_per_s"),
    Load("retries", "seconds", 1, 3, 8, "lag_p50_ms", steps=1000, fixed=RETRIES),
]

# Only on demand: a million calls are stored first, for each count.
GATED = [
    Load("gated", "instances", 200, 1000, 30000, "steps_per_s", 5, ["--reps", "1"], "gated chain"),
    Load("gated", "reps", 50, 250, 1000, "latency_p50_ms", 5, ["--instances", "10"], "gated latency"),
]


def main():
    arguments = read_arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    measure = {"instructions": instructions, "times": times}[arguments.what]
    stores = ["sqlite"] + (["postgres"] if arguments.postgres else [])
    print("| load | store | before | after | ratio |\n|---|---|---|---|---|")
    for store in stores:
        for load in GATED if "gated" in (arguments.only or "") else LOADS:
            if arguments.only and arguments.only not in f"{load.name} {store}":
                continue
            rounds = [
                [measure(program, load, store, arguments) for program in compared(arguments)]
                for _ in range(arguments.rounds)
            ]
            unit = load.figure if arguments.what == "times" else "instructions"
            print(row(load, store, unit, rounds), flush=True)


def compared(arguments):
    """The two commands that are compared."""
    before, after = arguments.programs
    return [before, *arguments.before_with], [after, *arguments.after_with]


def read_arguments():
    parser = argparse.ArgumentParser(description="Compares two builds of the benchmark.")
    parser.add_argument("what", choices=["instructions", "times"])
    parser.add_argument("programs", nargs=2, metavar="PROGRAM", help="before, and after")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for SQLite files")
    parser.add_argument("--postgres", help="the URL of a database")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before-with", metavar="ARGUMENT", action="append", default=[])
    parser.add_argument("--after-with", metavar="ARGUMENT", action="append", default=[])
    parser.add_argument("--only", help="rows whose mode and store have this in them")
    return parser.parse_args()


def instructions(program, load, store, arguments):
    """How many a step takes."""
    small, large = (count(program, load, size, store, arguments) for size in (load.small, load.large))
    return (large - small) / ((load.large - load.small) * load.steps)


def count(program, load, size, store, arguments):
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = run([*valgrind, *command(program, load, size)], store, arguments)
    return int(re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)[1].replace(",", ""))


def times(program, load, store, arguments):
    """The figure of the mode."""
    done = run(command(program, load, load.timed), store, arguments)
    return json.loads(done.stdout.splitlines()[-1])[load.figure]


def command(program, load, size):
    name, *more = program
    return [name, *load.arguments(size), *more]


def run(words, store, arguments):
    where = f"sqlite:{fresh(arguments.folder)}" if store == "sqlite" else arguments.postgres
    words = [*words, "--store", where, "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr[-500:]}")
    print(f"  {' '.join(words)}: {done.stdout.strip()}", file=sys.stderr)
    return done


def row(load, store, unit, rounds):
    ratios = [before / after if unit.endswith("_ms") else after / before for before, after in rounds]
    ratio = f"**{statistics.median(ratios):.3f}** ({min(ratios):.3f} to {max(ratios):.3f})"
    figures = [f"{digits(statistics.median(column))} {unit}" for column in zip(*rounds)]
    cells = [load.name, store, *figures, ratio]
    return "| " + " | ".join(cells) + " |"


def digits(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def fresh(folder):
    """A file that is not there, and neither is anything that an earlier one left."""
    for left in folder.glob("before_after.db*"):
        os.remove(left)
    return folder / "before_after.db"


if __name__ == "__main__":
    main()
