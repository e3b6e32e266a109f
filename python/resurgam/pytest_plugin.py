"""A fixture for pytest: ``app``, an app under test.

::

    async def test_an_order_is_paid(app):
        await app.run("order-1", fulfil, order)
        assert app.attempts(charge) == 1

A test that is an ``async def`` and takes ``app`` runs in an event loop of its own, in which the app
is open; no other plugin is needed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from ._app import TestApp


@pytest.fixture
def app() -> Iterator[TestApp]:
    """An app under test, in virtual time, which knows every activity and workflow that was imported.
    Override it in a ``conftest.py`` to give it options."""
    made = TestApp()
    yield made
    if made._native is not None:
        made._close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is an ``async def`` and takes an app."""
    test: Any = pyfuncitem.obj
    names = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in names}
    apps = [value for value in given.values() if isinstance(value, TestApp)]
    if not inspect.iscoroutinefunction(test) or not apps:
        return None

    async def run() -> None:
        for made in apps:
            if made._native is None:
                await made.open()
        try:
            await test(**given)
        finally:
            for made in apps:
                await made.stop()

    asyncio.run(run())
    return True
