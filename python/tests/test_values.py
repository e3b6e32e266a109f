"""Values and exceptions come back as what they were, also after a restart."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import os
import subprocess
import sys
import tempfile
import typing
import unittest
import uuid

import resurgam
from resurgam import ActivityError, App, RetryPolicy, TerminalError, TestApp, activity, failure_of, workflow
from resurgam import _codec

try:
    import pydantic
except ImportError:
    pydantic = None  # type: ignore[assignment]

T = typing.TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = ("b", 1)


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Box(typing.Generic[T]):
    inside: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tree:
    name: str
    below: list[Tree] = dataclasses.field(default_factory=list)


class Pair(typing.NamedTuple):
    left: int
    right: dt.date


class Movie(typing.TypedDict, total=False):
    title: typing.Required[str]
    seen: dt.date


Name = typing.NewType("Name", str)
NOW = dt.datetime(2026, 3, 1, 12, 30, 15, 250, tzinfo=dt.timezone.utc)

VALUES: list[tuple[typing.Any, typing.Any]] = [
    (None, None),
    (int, 2**70),
    (float, 1.0),
    (str, "żółw 🐢"),
    (bytes, b"\x00\xff"),
    (dt.datetime, NOW),
    (dt.date, NOW.date()),
    (dt.time, dt.time(1, 2, 3)),
    (dt.timedelta, dt.timedelta(days=3, milliseconds=5)),
    (uuid.UUID, uuid.UUID(int=7)),
    (decimal.Decimal, decimal.Decimal("1.10")),
    (Colour, Colour.RED),
    (Colour, Colour.BLUE),
    (Level, Level.LOW),
    (Point, Point(1, 2.5)),
    (list[Point], [Point(1), Point(2)]),
    (dict[str, list[Point]], {"a": [Point(1)]}),
    (dict[Colour, int], {Colour.RED: 3}),
    (set[int], {3, 1, 2}),
    (frozenset[str], frozenset("ab")),
    (tuple[int, dt.date], (1, NOW.date())),
    (tuple[Point, ...], (Point(1), Point(2))),
    (typing.Optional[Point], None),
    (typing.Optional[Point], Point(4)),
    (Point | Colour | None, Colour.RED),
    (int | dt.datetime, NOW),
    (Point | Tree, Tree("a", [Tree("b")])),
    (Box[Point], Box(Point(1), [Point(2)])),
    (Box[Box[dt.date]], Box(Box(NOW.date()))),
    (Pair, Pair(1, NOW.date())),
    (Movie, {"title": "M", "seen": NOW.date()}),
    (Name, Name("n")),
    (typing.Literal["a", 1], "a"),
    (typing.Any, {"a": [1, None, True]}),
]

if pydantic is not None:

    class Line(pydantic.BaseModel):
        sku: str
        price: decimal.Decimal

    class Bill(pydantic.BaseModel):
        lines: list[Line]
        at: dt.datetime
        note: str | None = pydantic.Field(default=None, alias="remark")

    class Sealed(pydantic.BaseModel):
        raw: bytes
        parts: dict[str, list[bytes]] = {}
        inner: Sealed | None = pydantic.Field(default=None, alias="inside")
        short: typing.Annotated[bytes, pydantic.Field(max_length=3)] | None = None
        page: pydantic.HttpUrl | None = None
        anything: typing.Any = None

    class Bytes(pydantic.RootModel[list[bytes]]):
        pass

    class Open(pydantic.BaseModel, extra="allow"):
        by_number: dict[int, typing.Any] = {}

    @dataclasses.dataclass
    class Envelope:
        sealed: Sealed

    class Letter(pydantic.BaseModel):
        envelope: Envelope

    class Login(pydantic.BaseModel):
        name: str
        password: pydantic.SecretStr

    class Told(Login):
        @pydantic.field_serializer("password")
        def tell(self, value: pydantic.SecretStr) -> str:
            return value.get_secret_value()

    SEALED = Sealed(
        raw=b"\xff\x00",
        parts={"a": [b"\xfe", b"text"]},
        inside=Sealed(raw=b"\x80"),
        short=b"\xfa",
        page=pydantic.HttpUrl("https://example.com/"),
        anything={"a": [1, None]},
    )
    BILL = Bill(lines=[Line(sku="a", price=decimal.Decimal("2.50"))], at=NOW, remark="x")
    VALUES += [
        (Bill, BILL),
        (list[Bill], [BILL]),
        (Bill | None, BILL),
        (Box[Bill], Box(BILL)),
        (Sealed, SEALED),
        (list[Sealed | None], [SEALED, None]),
        (Bytes, Bytes([b"\xff", b"a"])),
        (Letter, Letter(envelope=Envelope(SEALED))),
        (typing.Annotated[bytes, pydantic.Field(max_length=3)], b"\xff"),
        (Open, Open(by_number={1: "one"}, other=[1, 2])),  # type: ignore[call-arg]
        (Told, Told(name="ada", password=pydantic.SecretStr("x"))),
    ]


class UnicodeText(collections.UserDict[str, int]):
    """Its own code fails with an exception that is not made of a text."""

    def items(self) -> typing.Any:
        return b"\xff".decode()


@activity
async def told_of_error(value: typing.Any) -> None:
    pass


class CardDeclined(Exception):
    def __init__(self, reason: str, amount: decimal.Decimal):
        super().__init__(f"declined: {reason}", amount)
        self.reason = reason
        self.amount = amount
        self.at = NOW


@activity(retry=RetryPolicy.fixed(1).max_attempts(5).never_for(CardDeclined))
async def decline() -> None:
    try:
        raise KeyError("no such card")
    except KeyError as error:
        raise CardDeclined("no funds", decimal.Decimal("9.99")) from error


@activity(retry=RetryPolicy.once())
async def fails_in_many_ways(leaf: bool) -> None:
    async def fail(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fail(TerminalError("one")))
        group.create_task(fail(TerminalError("two") if leaf else ValueError("two")))


@activity(retry=RetryPolicy.once())
async def fails_with_a_class_of_its_own() -> None:
    class Hidden(Exception):
        pass

    raise Hidden("nobody can import this")


@workflow
async def catches() -> list[str]:
    try:
        await decline()
    except CardDeclined as error:
        await asyncio.sleep(60)  # replayed after a restart: the same class again
        failure = failure_of(error)
        assert failure is not None
        assert isinstance(failure.__cause__, KeyError), failure.__cause__
        return [error.reason, str(error.amount + 1), str(error.at == NOW), str(failure.why)]
    return []


@workflow
async def catches_group(leaf: bool) -> list[str]:
    caught: list[str] = []
    try:
        await fails_in_many_ways(leaf)
    except* TerminalError as group:
        await asyncio.sleep(60)
        caught = sorted(str(error) for error in group.exceptions)
    except* ValueError:
        pass
    return caught


@workflow
async def meets_the_unknown() -> str:
    try:
        await fails_with_a_class_of_its_own()
    except ActivityError as error:
        return f"{error.type}: {error.message}"
    return ""


class Short(Exception):
    """One that cannot be made again from its arguments."""

    def __init__(self, *, order: str, by: decimal.Decimal):
        super().__init__(f"{order} is short by {by}")
        self.order, self.by = order, by
        self.at = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)
        self.id, self.raw = uuid.UUID(int=7), b"\x00\xff"
        self.parts = {"a": [1, (2, 3)], "b": {4}}


@dataclasses.dataclass
class Coded(Exception):
    code: int
    hint: str | None = None


def caused() -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = LookupError("inner")
    return error


EXCEPTIONS: list[Exception] = [
    ValueError("wrong"),
    KeyError("k"),
    ZeroDivisionError(),
    FileNotFoundError(2, "no such file", "a.txt"),
    ConnectionRefusedError(111, "refused"),
    TimeoutError("late"),
    StopAsyncIteration("over"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    json.JSONDecodeError("expected", "{", 1),
    subprocess.CalledProcessError(3, ["ls", "x"], "out", "err"),
    Short(order="o-1", by=decimal.Decimal("0.10")),
    Coded(42, "try later"),
    caused(),
    ExceptionGroup("both", [ValueError("one"), Coded(7)]),
]


def told_of(error: BaseException | None) -> list[typing.Any]:
    """Everything about an exception that code can look at."""
    if error is None:
        return []
    names = ("errno", "filename", "reason", "start", "lineno", "returncode", "cmd", "stderr")
    seen = {name: getattr(error, name) for name in names if hasattr(error, name)}
    leaves = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    cause = error.__cause__
    while isinstance(cause, resurgam.ActivityError):  # that is what was recorded
        cause = cause.__cause__
    return [
        type(error).__name__, str(error), repr(error.args), repr(sorted(vars(error).items())), repr(seen),
        [told_of(leaf) for leaf in leaves], told_of(cause),
    ]


@activity(retry={"max_attempts": 1})
async def raises_one(number: int) -> None:
    raise EXCEPTIONS[number]


@workflow
async def catches_one(number: int) -> typing.Any:
    try:
        await raises_one(number)
    except Exception as error:
        await asyncio.sleep(60)
        return told_of(error)


def travellers() -> tuple[tuple[typing.Any, ...], tuple[typing.Any, ...]]:
    """An activity and a workflow for each value, which wait for a word when they have it."""

    def travels(number: int) -> typing.Any:
        async def echo(value):  # type: ignore[no-untyped-def]
            return value

        async def carry(value):  # type: ignore[no-untyped-def]
            got = await made(value)
            await resurgam.signal("go")
            return [got == value, type(got) is type(value), await made(got)]

        for fn in (echo, carry):
            fn.__annotations__ = {"value": VALUES[number][0]}
            fn.__name__ = fn.__qualname__ = f"{fn.__name__}_{number}"
        echo.__annotations__["return"] = VALUES[number][0]
        made = activity(echo)
        return made, workflow(carry)

    activities, workflows = zip(*(travels(number) for number in range(len(VALUES))))
    return activities, workflows


@workflow
async def keeps_one(number: int) -> typing.Any:
    try:
        await raises_one(number)
    except Exception as error:
        await resurgam.signal("go")
        return told_of(error)


def everything(folder: str) -> tuple[App, tuple[typing.Any, ...]]:
    activities, workflows = travellers()
    workflows = (*workflows, keeps_one)
    file = os.path.join(folder, "values.db")
    return App(file, activities=(*activities, raises_one), workflows=workflows), workflows


async def leave(folder: str) -> None:
    """Begins a run for each value and each exception, and ends without another word."""
    app, workflows = everything(folder)
    await app.open()
    for number, (_, value) in enumerate(VALUES):
        await app.start(f"v-{number}", workflows[number], value)
    for number in range(len(EXCEPTIONS)):
        await app.start(f"e-{number}", keeps_one, number)
    for row in await app.list(limit=1000):
        while (await app.describe(row.id)).pending:
            await asyncio.sleep(0.01)
    os._exit(0)


async def find(folder: str) -> None:
    """Finds them in another interpreter."""
    app, workflows = everything(folder)
    async with app:
        for number, (hint, value) in enumerate(VALUES):
            run = app.instance(f"v-{number}", workflows[number])
            await run.signal("go")
            assert (await run.result())[:2] == [True, True], (hint, value)
        for number, error in enumerate(EXCEPTIONS):
            run = app.instance(f"e-{number}", keeps_one)
            await run.signal("go")
            assert await run.result() == told_of(error), (await run.result(), told_of(error))
    print(len(VALUES), len(EXCEPTIONS))


class Values(unittest.IsolatedAsyncioTestCase):
    def test_every_value_comes_back_by_its_annotation(self) -> None:
        for hint, value in VALUES:
            with self.subTest(hint=hint, value=value):
                back = _codec.decoder(hint)(_codec.encode(value))
                self.assertEqual(back, value)
                self.assertIs(type(back), type(value))

    def test_what_has_no_json_form_is_refused_with_a_sentence(self) -> None:
        for value, text in [
            (math.nan, "nan has no JSON form"),
            ({1: 2}, "keys are texts"),
            ({"a": object()}, "object has no JSON form: make it a dataclass"),
            ("\ud800", "lone surrogate"),
        ]:
            with self.subTest(value=value), self.assertRaisesRegex((TypeError, ValueError), text):
                _codec.encode(value)

    @unittest.skipIf(pydantic is None, "pydantic is not there")
    def test_bytes_in_models_are_base64_like_everywhere(self) -> None:
        self.assertEqual(json.loads(_codec.encode(Sealed(raw=b"text")))["raw"], "dGV4dA==")
        with self.assertRaisesRegex(ValueError, "the arguments of told_of_error.*utf-8"):
            told_of_error.pack((UnicodeText(),), {})

    @unittest.skipIf(pydantic is None, "pydantic is not there")
    def test_secrets_are_refused_before_stars_are_stored(self) -> None:
        secret = pydantic.SecretStr("x")
        login = Login(name="ada", password=secret)
        for value in (login, [login], Box(login), {"a": secret}, Sealed(raw=b"", anything=[secret]),
                      Open(key=secret)):  # type: ignore[call-arg]
            with (
                self.subTest(value=value),
                self.assertRaisesRegex(TypeError, "a SecretStr is not stored.*the activity look it up"),
            ):
                _codec.encode(value)

    def test_values_are_written_and_read_alike_without_pydantic(self) -> None:
        blocked = (
            "import sys; sys.modules['pydantic'] = None\n"
            "import json, test_values as t\n"
            "from resurgam import _codec\n"
            "for hint, value in t.VALUES:\n"
            "    text = _codec.encode(value)\n"
            "    assert _codec.decoder(hint)(text) == value, hint\n"
            "    print(text)\n"
        )
        environment = {**os.environ, "PYTHONHASHSEED": "3"}
        without = subprocess.run(
            [sys.executable, "-c", blocked], capture_output=True, text=True, env=environment,
            cwd=os.path.dirname(__file__),
        )
        self.assertEqual(without.returncode, 0, without.stderr)
        lines = without.stdout.splitlines()
        self.assertEqual(lines, [_codec.encode(value) for _, value in VALUES[: len(lines)]])
        self.assertGreater(len(lines), 30)

    def test_sets_are_written_in_one_order(self) -> None:
        self.assertEqual(_codec.encode({"b", "a", "c"}), '["a","b","c"]')

    async def test_values_travel_through_a_workflow_and_a_restart(self) -> None:
        activities, workflows = travellers()
        async with TestApp(activities=activities, workflows=workflows) as app:
            runs = [
                await app.start(f"v-{number}", workflows[number], value)
                for number, (_, value) in enumerate(VALUES)
            ]
            await app.until_parked()
            await app.restart()
            for number, run in enumerate(runs):
                with self.subTest(value=VALUES[number]):
                    await run.signal("go")
                    self.assertEqual((await run.result())[:2], [True, True])

    def test_values_and_exceptions_are_the_same_in_another_interpreter(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for call in ("leave", "find"):
                program = f"import asyncio, test_values as t; asyncio.run(t.{call}({folder!r}))"
                ended = subprocess.run(
                    [sys.executable, "-c", program],
                    capture_output=True,
                    text=True,
                    cwd=os.path.dirname(__file__),
                )
                self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual(ended.stdout.split(), [str(len(VALUES)), str(len(EXCEPTIONS))])

    async def test_an_exception_is_the_same_after_a_restart(self) -> None:
        async with TestApp() as app:
            run = await app.start("c", catches)
            await app.advance(30)
            await app.restart()
            self.assertEqual(await run.result(), ["no funds", "10.99", "True", "non_retryable"])
            self.assertEqual(app.attempts(decline), 1)

    async def test_every_exception_is_the_same_after_a_restart(self) -> None:
        async with TestApp() as app:
            runs = [await app.start(f"e-{n}", catches_one, n) for n in range(len(EXCEPTIONS))]
            await app.advance(30)
            await app.restart()
            for number, run in enumerate(runs):
                with self.subTest(exception=EXCEPTIONS[number]):
                    self.assertEqual(await run.result(), told_of(EXCEPTIONS[number]))
                    self.assertEqual(app.attempts(raises_one), len(EXCEPTIONS))

    async def test_an_exception_group_comes_back_with_its_leaves(self) -> None:
        async with TestApp() as app:
            self.assertEqual(await app.run("g", catches_group, True), ["one", "two"])
            self.assertEqual(await app.run("h", catches_group, False), ["one"])

    async def test_a_class_that_cannot_be_imported_is_an_activity_error(self) -> None:
        async with TestApp() as app:
            self.assertEqual(
                await app.run("u", meets_the_unknown), "Hidden: nobody can import this"
            )


if __name__ == "__main__":
    unittest.main()
