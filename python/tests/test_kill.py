"""``kill -9`` at any instant loses nothing, begins nothing after it has completed, and keeps budgets.

A few kills here; ``python test_kill.py 200`` does as many as one likes.
"""

from __future__ import annotations

import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(__file__).with_name("killed.py"))
CHAINS, STEPS = 30, 4


def journal_problems(lines: list[str]) -> list[str]:
    """What the journal says that must not be."""
    problems = []
    furthest: dict[str, int] = collections.defaultdict(int)
    attempts: dict[tuple[str, int], int] = {}
    failures: dict[tuple[str, int], int] = collections.defaultdict(int)
    ended: set[tuple[str, int]] = set()
    for line in lines:
        what, name, number, attempt = line.split()
        call, count = (name, int(number)), int(attempt)
        if what == "fails":
            failures[call] += 1
        elif what == "ends":
            ended.add(call)
        else:
            # The next step begins when this one has completed, and not before; somebody is told the
            # result when the last one has.
            if int(number) < furthest[name]:
                problems.append(f"{line}: step {furthest[name]} had begun, or the chain was over")
            furthest[name] = max(furthest[name], int(number))
            if what == "begins" and count <= attempts.get(call, 0):
                problems.append(f"{line}: attempt {attempts[call]} had begun")
            attempts[call] = count
    problems += [f"{call} failed {n} times" for call, n in failures.items() if n > 3]
    names = [f"chain-{chain}" for chain in range(CHAINS)]
    complete = {(name, step) for name in names for step in range(STEPS)}
    problems += [f"{call} never ended" for call in sorted(complete - ended)]
    problems += [f"nobody was told of {name}" for name in names if furthest[name] != STEPS]
    return problems


def kill_many(kills: int, seed: int) -> tuple[int, list[str]]:
    """Kills the program at most as often, until it ends by itself. Answers with how often it was
    killed at work, and with what is wrong."""
    chance = random.Random(seed)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        database, journal = os.path.join(folder, "app.db"), os.path.join(folder, "journal")
        command = [sys.executable, PROGRAM, database, journal, str(CHAINS)]
        while killed < kills:
            # A chain writes nine lines or more, so the first kill always finds work.
            end = [str(chance.randint(1, 3 * CHAINS)), str(chance.uniform(0.0, 0.01))]
            if chance.random() < 0.25:
                # While the database is made or recovered, and runs are loaded or started.
                end = ["0", str(chance.uniform(0.0, 0.3))]
            child = subprocess.run([*command, *end], capture_output=True, text=True, timeout=120)
            if child.returncode == 0:
                break
            if child.returncode != -signal.SIGKILL:
                return killed, [f"it ended with {child.returncode}", child.stderr]
            killed += 1
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if ended.returncode != 0:
            return killed, [ended.stderr]
        return killed, journal_problems(pathlib.Path(journal).read_text().splitlines())


class Killed(unittest.TestCase):
    def test_kills_at_random_instants_lose_nothing_and_repeat_nothing(self) -> None:
        seed = random.randrange(10**6)
        killed, problems = kill_many(3, seed)
        self.assertEqual(problems, [], f"seed {seed}, {killed} kills")
        self.assertGreater(killed, 0, f"seed {seed}: it was never killed")

    def test_the_journal_would_tell_of_a_step_that_begins_again(self) -> None:
        lines = []
        for chain in range(CHAINS):
            for step in range(STEPS):
                lines += [f"begins chain-{chain} {step} 1", f"ends chain-{chain} {step} 1"]
            lines.append(f"over chain-{chain} {STEPS} 0")
        self.assertEqual(journal_problems(lines), [])
        for wrong in ("begins chain-0 3 2", "begins chain-0 0 2"):
            self.assertEqual(len(journal_problems([*lines, wrong])), 1)
        self.assertEqual(len(journal_problems(lines[:-1])), 1)
        self.assertEqual(len(journal_problems(lines[:-2] + lines[-1:])), 1)


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    made, round_ = 0, 0
    while made < wanted:
        killed, found = kill_many(min(8, wanted - made), round_)
        made, round_ = made + killed, round_ + 1
        print(f"{made} kills in {round_} databases, {found or 'all is well'}", flush=True)
        if found:
            sys.exit(1)
