"""Gates, pauses, policies by name, many calls at once, dead letters: what operators do."""

from __future__ import annotations

import datetime as dt
import unittest

import resurgam
from resurgam import RetryPolicy, Schedule, TestApp, activity, workflow

PATIENT = RetryPolicy.fixed(60).max_attempts(50).jitter("none")
fails = True
charged: list[str] = []


@activity(name="gates.charge", retry=PATIENT, gate="shop:{shop}")
async def charge(order: str, shop: str) -> str:
    if fails:
        raise ConnectionError("no answer")
    charged.append(order)
    return order


@activity(name="gates.give_up", retry={"max_attempts": 1, "on_exhausted": "dead_letter"})
async def gives_up(order: str) -> str:
    if fails:
        raise ValueError(f"no {order}")
    return order


@activity(name="gates.undo", retry={"max_attempts": 1})
async def undo(order: str) -> None:
    if len(charged) < 3:
        charged.append("undo")
        raise ConnectionError("not yet")


@workflow(name="gates.sells")
async def sells(order: str, shop: str) -> str:
    return await charge(order, shop)


@workflow(name="gates.tries")
async def tries(order: str) -> str:
    return await gives_up(order)


@workflow(name="gates.undoes")
async def undoes() -> None:
    patient = charge.options(
        compensate=lambda order: undo.bind(order),
        compensation_retry=RetryPolicy.fixed(1).max_attempts(5),
        gate="stripe",
    )
    await patient("o", "x")
    raise resurgam.TerminalError("no")


class Gates(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        global fails
        fails = True
        charged.clear()
        self.app = TestApp(gates={"shop:*": {"breaker": {"min_calls": 1000}}})
        await self.app.open()

    async def asyncTearDown(self) -> None:
        await self.app.stop()

    async def test_nothing_begins_behind_a_gate_that_is_shut(self) -> None:
        global fails
        fails = False
        acted = await self.app.shut_gate("shop:north", by="ana", reason="stocktaking")
        self.assertTrue(acted.changed)
        north = await self.app.start("n", sells, "1", "north")
        self.assertEqual(await self.app.run("s", sells, "2", "south"), "2")
        await self.app.advance(1)
        call = (await north.describe()).pending[0]
        self.assertEqual((call.gate, call.attempt), ("shop:north", 0))
        self.assertIn("stocktaking", call.held_by or "")
        gate = [g for g in await self.app.gates() if g.key == "shop:north"][0]
        self.assertEqual((gate.standing, gate.due), ("shut", 1))
        await self.app.auto_gate("shop:north")
        self.assertEqual(await north.result(), "1")

    async def test_settings_of_gates_are_checked_and_stored(self) -> None:
        await self.app.set_gate("shop:*", {"breaker": {"min_calls": 5}})
        with self.assertRaisesRegex(ValueError, "brakes"):
            await self.app.set_gate("shop:*", {"brakes": True})
        with self.assertRaisesRegex(ValueError, "gate x"):
            await TestApp(gates={"x": {"nonsense": 1}}).open()
        await self.app.unset_gate("shop:*")

    async def test_a_call_has_a_gate_and_its_undoing_a_policy_of_their_own(self) -> None:
        global fails
        fails = False
        with self.assertRaises(resurgam.TerminalError):
            await self.app.run("u", undoes)
        self.assertEqual(charged, ["o", "undo", "undo"])
        self.assertEqual(self.app.attempts(undo), 3)

    async def test_an_activity_and_a_queue_are_paused_as_a_whole(self) -> None:
        global fails
        fails = False
        await self.app.pause_activity(charge, by="ana")
        await self.app.pause_queue("slow", reason="full")
        holds = {(hold.kind, hold.name, hold.by, hold.reason) for hold in await self.app.holds()}
        self.assertIn(("activity", "gates.charge", "ana", None), holds)
        self.assertEqual(len(holds), 2)
        run = await self.app.start("p", sells, "1", "x")
        await self.app.advance(60)
        self.assertEqual(self.app.attempts(charge), 0)
        await self.app.resume_activity(charge)
        await self.app.resume_queue("slow")
        self.assertEqual((await run.result(), await self.app.holds()), ("1", []))

    async def test_a_policy_by_name_decides_about_calls_that_wait(self) -> None:
        run = await self.app.start("p", sells, "1", "x")
        await self.app.advance(1)
        await self.app.set_policy(charge, RetryPolicy.fixed(1).max_attempts(3), by="ana")
        self.assertEqual([(p.activity, p.by) for p in await self.app.policies()], [("gates.charge", "ana")])
        with self.assertRaises(ConnectionError):
            await run.result()
        self.assertEqual(self.app.attempts(charge), 3)
        await self.app.unset_policy(charge)
        self.assertEqual(await self.app.policies(), [])

    async def test_many_calls_are_retried_at_once_after_a_look(self) -> None:
        global fails
        runs = [await self.app.start(f"r{n}", sells, str(n), "x") for n in range(5)]
        await self.app.advance(1)
        calls = self.app.calls(activity=charge, failure_type="ConnectionError", status="retrying")
        preview = await calls.preview()
        self.assertEqual((preview.matched, sorted(preview.instances)[0]), (5, "r0"))
        fails = False
        done = await calls.retry(reset=True, limit=3, by="ana", reason="mended")
        self.assertEqual((done.state, done.matched, done.changed), ("done", 3, 3))
        await self.app.until_parked()
        self.assertEqual(len(charged), 3)
        acted = [action for n in range(5) for action in await self.app.actions(f"r{n}")]
        self.assertEqual({(a.action, a.by, a.reason) for a in acted}, {("retry", "ana", "mended")})
        for run in runs:
            await run.result()

    async def test_failed_runs_are_reset_at_once(self) -> None:
        global fails
        for n in range(2):
            with self.assertRaises(ValueError):
                await self.app.run(f"t{n}", tries, str(n))
        fails = False
        done = await self.app.runs(workflow=tries, status="failed").reset(reason="mended")
        self.assertEqual(done.changed, 2)
        self.assertEqual(await self.app.instance("t0", tries).result(), "0")

    async def test_dead_letters_are_listed_redriven_and_discarded(self) -> None:
        global fails
        for n in range(3):
            with self.assertRaises(ValueError):
                await self.app.run(f"d{n}", tries, str(n))
        letters = await self.app.dead_letters(activity=gives_up)
        self.assertEqual(sorted(letter.instance for letter in letters), ["d0", "d1", "d2"])
        one = next(letter for letter in letters if letter.instance == "d1")
        self.assertEqual((one.failure.message, one.attempts, one.input), ("no 1", 1, {"order": "1"}))
        fails = False
        self.assertTrue((await self.app.redrive(one)).changed)
        self.assertEqual(await self.app.instance("d1", tries).result(), "1")
        await self.app.discard(next(letter for letter in letters if letter.instance == "d2"))
        self.assertEqual([it.instance for it in await self.app.dead_letters(state="discarded")], ["d2"])
        self.assertEqual((await self.app.letters(activity=gives_up).redrive()).changed, 1)
        self.assertEqual(await self.app.dead_letters(), [])

    async def test_paused_calls_wait_in_a_list(self) -> None:
        await self.app.start("p", sells, "1", "x")
        await self.app.advance(1)
        await self.app.call("p", "gates.charge").pause(by="ana", reason="look first")
        (paused,) = await self.app.paused_calls(activity=charge)
        self.assertEqual((paused.instance, paused.by, paused.reason), ("p", "ana", "look first"))

    async def test_a_retry_with_reset_counts_from_nothing(self) -> None:
        run = await self.app.start("p", sells, "1", "x")
        await self.app.advance(200)
        acted = await self.app.call("p", "gates.charge").retry(reset=True)
        self.assertTrue(acted.changed)
        self.assertEqual([action.action for action in await self.app.actions("p")], ["retry"])
        await run.terminate()

    async def test_an_option_that_a_submission_cannot_have_is_refused(self) -> None:
        with self.assertRaisesRegex(resurgam.InvalidRequest, "timeout"):
            await self.app.submit("s", charge.options(timeout=3), "1", "x")

    async def test_lists_have_pages_and_more_filters(self) -> None:
        global fails
        fails = False
        for n in range(5):
            await self.app.run(f"l{n}", sells, str(n), "x")
            await self.app.advance(1)
        first = await self.app.list(workflow=sells, limit=2)
        rest = await self.app.list(workflow=sells, after=first[-1])
        ids = [row.id for row in first + rest]
        self.assertEqual(ids, ["l4", "l3", "l2", "l1", "l0"])
        late = await self.app.list(since=self.app.now() - dt.timedelta(seconds=2.5))
        self.assertEqual([row.id for row in late], ["l4", "l3"])
        self.assertEqual(await self.app.list(compensation="incomplete"), [])

    async def test_a_history_is_exported(self) -> None:
        global fails
        fails = False
        await self.app.run("e", sells, "1", "x")
        text = await self.app.export_history("e")
        self.assertIn("gates.sells", text or "")
        self.assertIsNone(await self.app.export_history("nobody"))

    async def test_a_schedule_has_bounds_and_is_backfilled(self) -> None:
        global fails
        fails = False
        now = self.app.now()
        hour = dt.timedelta(hours=1)
        schedule = Schedule(every=600, not_before=now + hour, not_after=now + 2 * hour, overlap="allow")
        await self.app.schedule("s", schedule, sells, "1", "x")
        await self.app.advance(3 * 3600)
        described = await self.app.describe_schedule("s")
        self.assertIn(described.started, (6, 7))
        # What it has started already is not started again, and what is paused has started nothing.
        self.assertEqual(await self.app.backfill("s", now + hour, now + 2 * hour), 0)
        paused = Schedule(every=600, paused=True, overlap="allow")
        await self.app.schedule("paused", paused, sells, "2", "x")
        await self.app.advance(3600)
        now = self.app.now()
        made = await self.app.backfill("paused", now - dt.timedelta(minutes=35), now)
        self.assertIn(made, (3, 4))
        await self.app.until_parked()
        self.assertEqual(len(await self.app.list(schedule="paused")), made)
        with self.assertRaises(resurgam.NotFound):
            await self.app.describe_schedule("t")


if __name__ == "__main__":
    unittest.main()
