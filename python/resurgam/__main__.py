"""``python -m resurgam``: what can be done without writing a program."""

from __future__ import annotations

import argparse
import sys

from . import lint, replay


def main() -> int:
    """Does what the arguments say, and answers with the exit code."""
    parser = argparse.ArgumentParser(prog="python -m resurgam", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("lint", help="name what workflows probably must not do")
    check.add_argument("files", nargs="+", metavar="FILE", help="files, or folders with them")
    again = commands.add_parser("replay", help="run today's code against recorded histories")
    again.add_argument("files", nargs="+", metavar="HISTORY", help="what export_history wrote")
    again.add_argument(
        "--module", "-m", action="append", required=True, dest="modules",
        help="what defines the workflows: a module, or a file that ends with .py",
    )
    again.add_argument(
        "--seeds", type=int, default=3, help="how many seeds for the hashes of texts are tried (3)"
    )
    given = parser.parse_args()
    if given.command == "replay":
        return replay.main(given.files, given.modules, given.seeds)
    return lint.main(given.files)


if __name__ == "__main__":
    sys.exit(main())
