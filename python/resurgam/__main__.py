"""``python -m resurgam``: what can be done without writing a program."""

from __future__ import annotations

import argparse
import sys

from . import lint


def main() -> int:
    """Does what the arguments say, and answers with the exit code."""
    parser = argparse.ArgumentParser(prog="python -m resurgam", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("lint", help="name what workflows probably must not do")
    check.add_argument("files", nargs="+", metavar="FILE", help="files, or folders with them")
    given = parser.parse_args()
    return lint.main(given.files)


if __name__ == "__main__":
    sys.exit(main())
