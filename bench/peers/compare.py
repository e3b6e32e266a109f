#!/usr/bin/env python3
"""Runs Resurgam and the engines it is measured against in turn, and writes a table.

    cargo build --release -p resurgam-bench
    (cd bench/peers && cargo build --release)
    bench/peers/compare.py --folder /var/tmp/compare --postgres postgres://localhost/bench > table.md

Every row is measured in several rounds, ours and theirs one after the other, so that whatever else
the machine does meets both. A figure is the median of the rounds, and the ratio the median of the
ratios of single rounds, with the smallest and the largest beside it. Without --postgres the rows on
PostgreSQL are left out; the server should be one that syncs, and a database that nobody else uses.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OURS = HERE.parent.parent / "target/release/resurgam-bench"
PEERS = HERE / "target/release"

# The best settings of Duroxide that were seen to finish; no thorough search. It looks for work every
# millisecond. More than four workers of each kind were faster with a hundred workflows, and with two
# thousand some workflows then fail with "database is locked".
BEST_UNDER_LOAD = ["--poll-ms", "1", "--workers", "4"]
BEST_ALONE = ["--poll-ms", "1", "--workers", "2"]


# The peers bound attempts by workers or not at all. Ours has a slot for each workflow of `chain`.
SLOTS = ["--slots", "4000"]


class Failed(Exception):
    """A program ended with an error, as a peer does that loses a workflow."""


def main():
    arguments = read_arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for row in list(on_sqlite(arguments)) + list(on_postgres(arguments)):
        if arguments.only and arguments.only not in f"{row['name']}, {row['peer']}":
            continue
        print(f"{row['name']}: {row['peer']}", file=sys.stderr)
        rows.append(measured(row, arguments.rounds))
        print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)


def read_arguments():
    parser = argparse.ArgumentParser(description="Compares Resurgam with its peers.")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for SQLite files")
    parser.add_argument("--postgres", help="the URL of a database")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--instances", type=int, default=2000, help="of chain")
    parser.add_argument("--only", help="rows whose name and peer have this in them")
    return parser.parse_args()


def on_sqlite(arguments):
    chain = ["chain", "--instances", str(arguments.instances), "--activities", "5"]
    one, five = (["latency", "--activities", k, "--reps", "100"] for k in ("1", "5"))
    for sync in ("full", "normal"):
        promise = f"synchronous={sync.upper()}"

        def ours(mode, sync=sync):
            settings = ["--sync", sync, *slots(mode)]
            return lambda: run_ours(mode, f"sqlite:{fresh(arguments.folder)}", settings)

        def theirs(mode, settings, sync=sync):
            file = lambda: ["--file", str(fresh(arguments.folder)), "--sync", sync]
            return lambda: run([PEERS / "peer-duroxide", *mode, *file(), *settings])

        for name, mode, figure, unit in (
            (f"chain {arguments.instances} x 5", chain, "steps_per_s", "steps/s"),
            ("latency, 1 activity", one, "p50_ms", "ms"),
            ("latency, 5 activities", five, "p50_ms", "ms"),
        ):
            best = BEST_UNDER_LOAD if mode is chain else BEST_ALONE
            for label, settings in (("best settings", best), ("defaults", [])):
                if label == "defaults" and (sync == "full" or mode is chain):
                    continue  # its defaults sync as NORMAL does, and are no faster
                yield {
                    "name": name,
                    "promise": promise,
                    "peer": f"Duroxide 0.1.32, {label}",
                    "figure": figure,
                    "unit": unit,
                    "ours": ours(mode),
                    "theirs": theirs(mode, settings),
                }
        if sync == "normal":
            long = ["growth", "--activities", "1000", "--ends", "100"]
            yield {
                "name": "growth, 1,000 activities: last step by first",
                "promise": promise,
                "peer": "Duroxide 0.1.32, best settings",
                "figure": "growth",
                "unit": "times",
                "ours": ours(long),
                "theirs": theirs(long, BEST_ALONE),
            }


def on_postgres(arguments):
    if not arguments.postgres:
        return
    promise = "synchronous_commit=on"
    chain = ["chain", "--instances", str(arguments.instances), "--activities", "5"]
    # Ours is done before its process has warmed up: so also after as many that do not count.
    warm = [*chain, "--warm", str(arguments.instances)]
    modes = (
        (f"chain {arguments.instances} x 5", chain, "steps_per_s", "steps/s"),
        (f"chain {arguments.instances} x 5, warm", warm, "steps_per_s", "steps/s"),
        ("latency, 1 activity", ["latency", "--activities", "1"], "p50_ms", "ms"),
        ("latency, 5 activities", ["latency", "--activities", "5"], "p50_ms", "ms"),
        (
            "growth, 10,000 activities: last step by first",
            ["growth", "--activities", "10000"],
            "growth",
            "times",
        ),
    )
    for name, mode, figure, unit in modes:
        for label, settings in (("defaults", []), ("50 connections", ["--connections", "50"])):
            if label != "defaults" and mode[0] != "chain":
                continue  # one workflow uses one connection at a time
            yield {
                "name": name,
                "promise": promise,
                "peer": f"dbos 0.5, {label}",
                "figure": figure,
                "unit": unit,
                "ours": lambda mode=mode: run_ours(mode, arguments.postgres, slots(mode)),
                "theirs": lambda mode=mode, settings=settings: run_dbos(
                    mode, arguments.postgres, settings
                ),
            }


def measured(row, rounds):
    ours, theirs, failed = [], [], 0
    while len(ours) < rounds:
        mine = row["ours"]()[row["figure"]]
        try:
            theirs.append(row["theirs"]()[row["figure"]])
            ours.append(mine)
        except Failed as error:
            print(f"  {error}", file=sys.stderr)
            failed += 1
            if failed > 2 * rounds:
                sys.exit("given up")
    more_is_better = row["unit"] == "steps/s"
    ratios = [o / t if more_is_better else t / o for o, t in zip(ours, theirs)]
    keep = {key: row[key] for key in ("name", "promise", "peer", "unit")}
    return {
        **keep,
        "ours": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "failed": failed,
    }


def print_table(rows):
    print("| load | durability of both | Resurgam | peer | its figure | ratio |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        ours, theirs = (f"{digits(row[who])} {row['unit']}" for who in ("ours", "theirs"))
        ratio = f"**{digits(row['ratio'])}** ({digits(row['least'])} to {digits(row['most'])})"
        if row["failed"]:
            theirs += f" ({row['failed']} rounds failed)"
        cells = [row["name"], row["promise"], ours, row["peer"], theirs, ratio]
        print("| " + " | ".join(cells) + " |")


def digits(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def slots(mode):
    return SLOTS if mode[0] == "chain" else []


def run_ours(mode, store, settings):
    return run([OURS, *mode, "--store", store, *settings, "--json"])


def run_dbos(mode, url, settings):
    """Its tables are made anew, as ours are."""
    subprocess.run(
        ["psql", url, "-qc", "DROP SCHEMA IF EXISTS dbos_bench CASCADE"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return run([PEERS / "peer-dbos", *mode, "--url", url, *settings])


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def fresh(folder):
    """A file that is not there, and neither is anything that an earlier one left."""
    for left in folder.glob("compare.db*"):
        os.remove(left)
    return folder / "compare.db"


if __name__ == "__main__":
    main()
