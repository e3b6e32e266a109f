"""What a Python workflow whose run is blocked may do instead, in Python's words.

The engine compares what the code asks for with the history, and says where they differ. It does not
know the language. Here the likely causes are named, and their lines where the source is at hand.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from . import lint

_OTHERWISE = (
    "If nobody has changed the code, it depends on something that differs when it runs again. In a "
    "workflow write resurgam.now() and not time.time() or datetime.now(), resurgam.random() and not "
    "random.random(), resurgam.uuid4() and not uuid.uuid4(); go through sorted(a_set); read globals, "
    "files and the environment in an activity. `python -m resurgam lint FILES` looks for such lines"
)


def advised(error: str | None, code: Callable[..., Any] | None = None) -> str | None:
    """Why a run is blocked, with what to write instead when its code has taken another way."""
    if error is None or "B1 " not in error:
        return error
    found = () if code is None else _suspects(code)
    return "\n".join([error, *found, _OTHERWISE])


@functools.lru_cache(maxsize=256)
def _suspects(code: Callable[..., Any]) -> tuple[str, ...]:
    """The lines of a workflow that probably differ each time; none where its source is not there."""
    try:
        file = inspect.getsourcefile(code)
        lines, first = inspect.getsourcelines(code)
        module = inspect.getmodule(code)
        source = inspect.getsource(module) if module is not None else ""
        findings = lint.lint_source(source, file or "<source>")
    except (OSError, TypeError, SyntaxError, ValueError):
        return ()
    return tuple(str(found) for found in findings if first <= found.line < first + len(lines))
