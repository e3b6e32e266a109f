"""Where an interpreter cannot load the extension, importing says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

IN_A_SUB_INTERPRETER = """
try:
    import _interpreters as interpreters  # from 3.13 on
except ImportError:
    import _xxsubinterpreters as interpreters
if {main_first}:
    import resurgam
number = interpreters.create()
found = interpreters.{run}(number, '''
import sys
try:
    import resurgam
except ImportError as error:
    print(error)
    sys.stdout.flush()
''')
assert not found, found
"""

WITHOUT_A_LOCK = """
import sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
import resurgam
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDEVMODE": ""}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )


class Interpreters(unittest.TestCase):
    def test_a_sub_interpreter_is_told_where_to_open_the_app(self) -> None:
        name = "exec" if sys.version_info >= (3, 13) else "run_string"
        for main_first in (False, True):
            with self.subTest(main_first=main_first):
                ended = run(IN_A_SUB_INTERPRETER.format(main_first=main_first, run=name))
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertIn("resurgam does not work in a sub-interpreter: open", ended.stdout)

    def test_a_free_threaded_build_is_told_which_one_to_use(self) -> None:
        ended = run(WITHOUT_A_LOCK)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("ImportError: resurgam does not work in a free-threaded build", ended.stderr)


if __name__ == "__main__":
    unittest.main()
