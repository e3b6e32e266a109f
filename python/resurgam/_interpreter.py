"""Loads the extension, and says what to do where an interpreter cannot.

The engine's threads take the lock of the interpreter and belong to the process. A sub-interpreter has
another one, and a free-threaded Python has none.
"""

from __future__ import annotations

import sysconfig

_SUB = (
    "resurgam does not work in a sub-interpreter: open the app in the main interpreter, or in a "
    "process of its own (multiprocessing, ProcessPoolExecutor)"
)
_FREE = (
    "resurgam does not work in a free-threaded build of Python: use the ordinary build of the same "
    "version, such as python3.14 and not python3.14t"
)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(_FREE)

try:
    from . import _native  # noqa: F401
except ImportError as error:
    if "subinterpreter" in str(error) or "sub-interpreter" in str(error):
        raise ImportError(_SUB) from error
    raise
