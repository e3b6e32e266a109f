"""Names what a workflow probably must not do, without running it: ``python -m resurgam lint FILES``.

It looks at functions under ``@workflow`` in the files given, and says what to write instead. What
they call in other functions it does not see; tests with ``TestApp`` find that.
"""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Iterator

_ACTIVITY = "move it into an activity"
_TIME = "write resurgam.now()"
_CHANCE = "write resurgam.random(), or ctx.rng() for more"

#: What is called, and what to write instead. A name that ends with a dot is a whole module.
_CALLS: dict[str, str] = {
    "time.time": _TIME,
    "time.time_ns": _TIME,
    "time.monotonic": _TIME,
    "time.perf_counter": _TIME,
    "time.sleep": "write await asyncio.sleep(..), which is a durable timer",
    "datetime.datetime.now": _TIME,
    "datetime.datetime.utcnow": _TIME,
    "datetime.datetime.today": _TIME,
    "datetime.date.today": "write resurgam.now().date()",
    "random.Random": "write ctx.rng()",
    "random.": _CHANCE,
    "secrets.": _CHANCE,
    "os.urandom": _CHANCE,
    "uuid.uuid1": "write resurgam.uuid4()",
    "uuid.uuid4": "write resurgam.uuid4()",
    "os.getenv": "pass it as an argument, or read it in an activity",
    "open": _ACTIVITY,
    "input": "wait for a signal",
    "asyncio.to_thread": _ACTIVITY,
    "asyncio.open_connection": _ACTIVITY,
    "asyncio.start_server": _ACTIVITY,
    "asyncio.create_subprocess_exec": _ACTIVITY,
    "asyncio.create_subprocess_shell": _ACTIVITY,
    "asyncio.run": "await it",
    "asyncio.as_completed": "give it tasks, not coroutines: as_completed([create_task(c) ...])",
    "asyncio.wrap_future": _ACTIVITY,
    "threading.": _ACTIVITY,
    "subprocess.": _ACTIVITY,
    "socket.": _ACTIVITY,
    "requests.": _ACTIVITY,
    "httpx.": _ACTIVITY,
    "aiohttp.": _ACTIVITY,
    "urllib.request.": _ACTIVITY,
    "concurrent.futures.": _ACTIVITY,
}


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """Something that a workflow probably must not do."""

    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.text}"


def lint_source(source: str, file: str = "<source>") -> list[Finding]:
    """What is found in a source."""
    tree = ast.parse(source, file)
    names = _imported(tree)
    findings: list[Finding] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef) and _is_workflow(node, names):
            findings += _in_workflow(node, names, file)
    return sorted(set(findings))


def lint_files(paths: Iterable[str | pathlib.Path]) -> list[Finding]:
    """What is found in files, and in all files of folders."""
    findings: list[Finding] = []
    for path in paths:
        path = pathlib.Path(path)
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            findings += lint_source(file.read_text(), str(file))
    return findings


def _imported(tree: ast.Module) -> dict[str, str]:
    """What names stand for, by the imports of the file."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _path(node: ast.expr, names: dict[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _is_workflow(node: ast.AsyncFunctionDef, names: dict[str, str]) -> bool:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        path = _path(target, names) or ""
        if path.startswith("resurgam") and path.endswith(".workflow"):
            return True
    return False


def _in_workflow(
    function: ast.AsyncFunctionDef, names: dict[str, str], file: str
) -> Iterator[Finding]:
    def found(node: ast.AST, text: str) -> Finding:
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
        return Finding(file, line, column, f"the workflow {function.name} {text}")

    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            path = _path(node.func, names)
            instead = _instead(path)
            if path is not None and instead is not None:
                yield found(node, f"calls {path}: {instead}")
            elif path is not None and path.endswith(".run_in_executor"):
                yield found(node, f"uses a thread: {_ACTIVITY}")
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            if isinstance(node.iter, (ast.Set, ast.SetComp)) or (
                isinstance(node.iter, ast.Call) and _path(node.iter.func, names) == "set"
            ):
                yield found(node.iter, "goes through a set, whose order changes: sorted(..) it")
        elif isinstance(node, ast.Global):
            yield found(node, "changes a global: keep it in the workflow, or use ctx.set(..)")
        elif isinstance(node, ast.Subscript) and _path(node.value, names) == "os.environ":
            yield found(node, "reads the environment: pass it as an argument")


def _instead(path: str | None) -> str | None:
    if path is None:
        return None
    if path in _CALLS:
        return _CALLS[path]
    for name, instead in _CALLS.items():
        if name.endswith(".") and path.startswith(name):
            return instead
    return None


def main(files: list[str]) -> int:
    """Prints what is found. The exit code is 1 when something is."""
    findings = lint_files(files)
    for finding in findings:
        print(finding)
    if not findings:
        print(f"nothing found in {len(files)} files or folders", file=sys.stderr)
    return 1 if findings else 0
