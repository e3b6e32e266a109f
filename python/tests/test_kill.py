"""``kill -9`` at any instant loses nothing, begins nothing after it has completed, and keeps budgets.

A few kills here; ``python test_kill.py 200`` does as many as one likes.
"""

from __future__ import annotations

import collections
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = str(pathlib.Path(__file__).with_name("killed.py"))
CHAINS, STEPS = 30, 4


def journal_problems(lines: list[str]) -> list[str]:
    """What the journal says that must not be."""
    problems = []
    furthest: dict[str, int] = collections.defaultdict(int)
    attempts: dict[tuple[str, int], int] = {}
    failures: dict[tuple[str, int], int] = collections.defaultdict(int)
    for line in lines:
        what, name, number, attempt = line.split()
        call, count = (name, int(number)), int(attempt)
        if what == "fails":
            failures[call] += 1
            continue
        # The next step begins when this one has completed, and not before.
        if int(number) < furthest[name]:
            problems.append(f"{line}: step {furthest[name]} had begun")
        furthest[name] = max(furthest[name], int(number))
        if count <= attempts.get(call, 0):
            problems.append(f"{line}: attempt {attempts[call]} had begun")
        attempts[call] = count
    problems += [f"{call} failed {n} times" for call, n in failures.items() if n > 3]
    complete = {(f"chain-{chain}", step) for chain in range(CHAINS) for step in range(STEPS)}
    problems += [f"{call} never began" for call in sorted(complete - attempts.keys())]
    return problems


def kill_many(kills: int, seed: int) -> list[str]:
    """Kills the program as often, lets it end, and answers with what is wrong."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        database, journal = os.path.join(folder, "app.db"), os.path.join(folder, "journal")
        command = [sys.executable, PROGRAM, database, journal, str(CHAINS)]
        for _ in range(kills):
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.2, 0.9))
            child.kill()
            out, _ = child.communicate()
            if b"done" in out:
                break
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if ended.returncode != 0:
            return [ended.stderr]
        return journal_problems(pathlib.Path(journal).read_text().splitlines())


class Killed(unittest.TestCase):
    def test_kills_at_random_instants_lose_nothing_and_repeat_nothing(self) -> None:
        self.assertEqual(kill_many(3, random.randrange(10**6)), [])


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    killed = 0
    for round_ in range(max(1, wanted // 4)):
        found = kill_many(4, round_)
        killed += 4
        print(f"{killed} kills, {found or 'all is well'}", flush=True)
        if found:
            sys.exit(1)
