"""Tables of one's own, in one transaction with the result of an activity."""

from __future__ import annotations

import os
import tempfile
import unittest

import resurgam
from resurgam import ActivityContext, App, Database, DatabaseError, RetryPolicy, TerminalError, TestApp, activity, workflow

SETUP = """
CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0));
INSERT OR IGNORE INTO account VALUES ('ada', 100), ('bob', 0);
"""
after: list[str] = []
unlucky: list[str] = []


class Poor(TerminalError):
    def __init__(self, name: str, has: int):
        super().__init__(f"{name} has {has}")
        self.name, self.has = name, has


@activity(name="tables.transfer", retry=RetryPolicy.fixed(1).max_attempts(3))
async def transfer(ctx: ActivityContext, source: str, target: str, cents: int) -> int:
    def move(db: Database) -> int:
        found = db.execute("SELECT cents FROM account WHERE name = ?", [source]).fetchone()
        assert found is not None
        if found[0] < cents:
            raise Poor(source, found[0])
        db.execute("UPDATE account SET cents = cents - ?2 WHERE name = ?1", [source, cents])
        if unlucky:
            raise ConnectionError(unlucky.pop())
        db.execute("UPDATE account SET cents = cents + ?2 WHERE name = ?1", [target, cents])
        return int(found[0]) - cents

    left = await ctx.transaction(move)
    after.append("this line runs")
    return left


@activity(name="tables.meddles", retry=RetryPolicy.fixed(1).max_attempts(2))
async def meddles(ctx: ActivityContext, statement: str) -> None:
    await ctx.transaction(lambda db: db.execute(statement) and None)


@activity(name="tables.plain", retry={"max_attempts": 1})
def plain(ctx: ActivityContext) -> None:
    ctx.transaction(lambda db: None).send(None)


@workflow(name="tables.gives")
async def gives(source: str, target: str, cents: int) -> int:
    return await transfer(source, target, cents)


def balances(db: Database) -> dict[str, int]:
    return dict(db.execute("SELECT name, cents FROM account ORDER BY name").fetchall())


class Tables(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        after.clear()
        unlucky.clear()
        self.app = TestApp(setup=SETUP)
        await self.app.open()

    async def asyncTearDown(self) -> None:
        await self.app.stop()

    async def test_rows_and_the_result_are_written_together_and_the_attempt_is_over(self) -> None:
        self.assertEqual(await self.app.run("g", gives, "ada", "bob", 30), 70)
        self.assertEqual(await self.app.read_tables(balances), {"ada": 70, "bob": 30})
        self.assertEqual((after, self.app.attempts(transfer)), ([], 1))

    async def test_nothing_is_written_when_the_function_raises_and_the_policy_decides(self) -> None:
        unlucky.append("no luck")
        self.assertEqual(await self.app.run("g", gives, "ada", "bob", 30), 70)
        self.assertEqual(self.app.attempts(transfer), 2)
        self.assertEqual(await self.app.read_tables(balances), {"ada": 70, "bob": 30})
        with self.assertRaises(Poor) as raised:
            await self.app.run("h", gives, "bob", "ada", 31)
        self.assertEqual((raised.exception.name, raised.exception.has), ("bob", 30))
        self.assertEqual(self.app.attempts(transfer), 3)

    async def test_the_engines_tables_are_not_for_it(self) -> None:
        run = await self.app.submit("m", meddles, "DELETE FROM instance")
        with self.assertRaises(resurgam.ActivityError) as raised:
            await run.result()
        self.assertEqual(raised.exception.type, "NotAllowed")
        self.assertEqual(self.app.attempts(meddles), 1)

    async def test_what_sqlite_refuses_is_an_error_with_its_words(self) -> None:
        with self.assertRaisesRegex(DatabaseError, "no such table: nobody"):
            await self.app.write_tables(lambda db: db.execute("DELETE FROM nobody") and None)
        with self.assertRaisesRegex(TypeError, "a parameter is None"):
            await self.app.read_tables(lambda db: db.execute("SELECT ?", [{}]) and None)  # type: ignore[list-item]

    async def test_values_go_in_and_come_out_as_they_are(self) -> None:
        values = [None, True, -(2**62), 1.5, "täxt", b"\x00\xff"]

        def keep(db: Database) -> list[object]:
            return list(db.execute("SELECT ?, ?, ?, ?, ?, ?", values)[0])  # type: ignore[arg-type]

        self.assertEqual(await self.app.read_tables(keep), [None, 1, *values[2:]])
        many = [("carl", 1), ("dora", 2)]
        insert = "INSERT INTO account VALUES (?, ?)"
        self.assertEqual(await self.app.write_tables(lambda db: db.executemany(insert, many)), 2)

    async def test_a_transaction_ends_with_its_function(self) -> None:
        kept: list[Database] = []
        await self.app.read_tables(lambda db: kept.append(db))
        with self.assertRaisesRegex(DatabaseError, "the transaction is over"):
            kept[0].execute("SELECT 1")

    async def test_a_plain_function_and_postgresql_are_told_so(self) -> None:
        with self.assertRaisesRegex(resurgam.InvalidRequest, "async def"):
            await (await self.app.submit("p", plain)).result()
        with self.assertRaisesRegex(ValueError, "SQLite"):
            await App("postgres://localhost:1/x", setup="CREATE TABLE x (y)").open()

    async def test_it_works_on_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with App(os.path.join(folder, "bank.db"), setup=SETUP) as app:
                for number in range(10):
                    await app.run(f"g-{number}", gives, "ada", "bob", 10)
                self.assertEqual(await app.read_tables(balances), {"ada": 0, "bob": 100})


if __name__ == "__main__":
    unittest.main()
