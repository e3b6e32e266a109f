"""Tables of one's own in the SQLite file of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _codec
from ._failures import ResurgamError, dump

Parameter = None | bool | int | float | str | bytes


class DatabaseError(ResurgamError):
    """SQLite refused a statement; the message says why."""


class Rows(list[tuple[Any, ...]]):
    """The rows that a statement has answered with, as a cursor has them."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], rowcount: int):
        super().__init__(rows)
        #: How many rows the statement has changed.
        self.rowcount = rowcount
        self._next = 0

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; ``None`` after the last."""
        if self._next >= len(self):
            return None
        self._next += 1
        return self[self._next - 1]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        rest, self._next = self[self._next :], len(self)
        return rest


class Database:
    """A transaction, for as long as it lasts."""

    __slots__ = ("_native",)

    def __init__(self, native: Any):
        self._native = native

    def execute(self, statement: str, parameters: Sequence[Parameter] = ()) -> Rows:
        """Runs one statement; ``?`` or ``?1`` stands for a parameter."""
        try:
            return Rows(*self._native.execute(statement, list(parameters)))
        except RuntimeError as error:
            raise DatabaseError(str(error)) from None

    def executemany(self, statement: str, many: Iterable[Sequence[Parameter]]) -> int:
        """Runs a statement for each of many; answers with how many rows have changed."""
        return sum(self.execute(statement, parameters).rowcount for parameters in many)


def transact(work: Callable[[Database], Any], native: Any) -> tuple[bool, str]:
    """What the engine runs in a transaction: whether it is done, and the result or the failure."""
    try:
        return (True, _codec.encode(work(Database(native))))
    except BaseException as error:
        return (False, dump(error))


__all__ = ["Database", "DatabaseError", "Rows", "transact"]
