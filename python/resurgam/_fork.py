"""What becomes of apps in a process that is forked.

A child has none of its parent's threads, so its apps are gone, and none of its locks, so the files
and sockets that they had are closed there: an orphan must not keep the lock of a file, or the
session of a server.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import _native
from ._failures import ResurgamError

_orphaned: list[Any] = []
# Device and inode of files that were open in the process that this one was forked from.
_inherited: set[tuple[int, int]] = set()


def after_fork(open_apps: Iterable[Any]) -> None:
    """Closes, in the child, what the parent's apps had open."""
    for app in open_apps:
        # Never dropped: the threads that would have to end with it are not in this process.
        _orphaned.append((app._native, app._turns, app._port))
        file = app._file()
        if file is None:
            continue
        _close_files(os.path.realpath(file))
        try:
            found = os.stat(file)
        except OSError:
            continue
        _inherited.add((found.st_dev, found.st_ino))
    _close_watched()


def _descriptors() -> list[tuple[int, str]]:
    """The open descriptors of this process, and what they stand for; none where that is not told."""
    found = []
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return []
    for number in numbers:
        try:
            found.append((int(number), os.readlink(f"/proc/self/fd/{number}")))
        except OSError:
            continue
    return found


def _close_files(path: str) -> None:
    names = {path + end for end in ("", "-wal", "-shm", "-journal", "-owner", "-queue")}
    for number, target in _descriptors():
        if target.removesuffix(" (deleted)") in names:
            os.close(number)


def _close_watched() -> None:
    """Closes the sockets that the parent's engine has: those that are watched together with its
    marker. What the program has opened itself stays open."""
    marker = _native.marker()
    if marker is None:
        return
    found = _descriptors()
    sockets = {number for number, target in found if target.startswith("socket:")}
    theirs = set()
    for number, target in found:
        if target != "anon_inode:[eventpoll]":
            continue
        try:
            with open(f"/proc/self/fdinfo/{number}") as told:
                lines = [line.split() for line in told if line.startswith("tfd:")]
        except OSError:
            continue
        watched = {int(words[1]) for words in lines}
        if marker in watched:
            # There may be several descriptors of one poll, which watch the same.
            theirs |= watched & sockets | {number}
    for number in theirs:
        os.close(number)


def refuse_inherited(file: str) -> None:
    """SQLite keeps in its memory which locks a process has on a file, and a child has its parent's
    memory and none of its locks. So it must not open that file."""
    try:
        found = os.stat(file)
    except OSError:
        return
    if (found.st_dev, found.st_ino) in _inherited:
        raise ResurgamError(
            f"{file} was open in the process that this one was forked from, and SQLite cannot open "
            "it here again: open the app after the fork, in each process, or start processes with "
            'multiprocessing.get_context("spawn")'
        )


__all__ = ["after_fork", "refuse_inherited"]
