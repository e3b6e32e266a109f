"""Runs Edda's published examples with only the import lines changed, beside Edda itself.

``python edda_examples.py PYTHON_WITH_EDDA [NAME...]`` fetches them with pip, and never keeps them. Both Pythons
need what the examples import: ``edda-framework``, ``aiosqlite``, ``uvloop``, ``httpx``,
``logfire[sqlite3]``, ``pydantic-rpc`` and ``starlette``. The table that it prints is in the guide for those who come from
Edda; below it are the lines that differ.
"""

from __future__ import annotations

import difflib
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

#: Why an example does not run.
WHY_NOT = {
    "observability_with_opentelemetry": "`edda.integrations.opentelemetry` is not offered; the hooks that it builds on are",
}

#: Why the outputs differ where they do, as it was found.
DIFFERENCES: dict[str, str] = {
    "retry_with_compensation": "two refunds more: Edda fails to undo what an activity with `on_failure` has done there",
    "observability_with_logfire": "all but the line about a replay that it asks Edda for: there is no `replay_engine`, for the engine replays by itself",
    "event_waiting_workflow": "each line once; Edda prints those before the event again when it replays",
    "event_waiting_workflow_complete": "each line once; Edda prints those before the event again when it replays",
    "event_waiting_app": "each line once; Edda prints those before the event again when it replays",
}

#: What has to be added to an example so that Edda runs it.
MENDED = {
    name: ('db_url="sqlite:', 'service_name="example", db_url="sqlite:', "`service_name` is added, without which Edda refuses it")
    for name in ("long_running_loop", "message_passing")
}

#: What a client does with the servers among them: `start` calls the workflow's `start`, `post` sends
#: a CloudEvent, `shows` waits for a text in the output.
CLIENTS = {
    "event_waiting_app": """
await start("payment_workflow", order_id="ORDER-1", amount=99.5)
await shows("Waiting for payment confirmation")
await post("payment.completed", {"order_id": "ORDER-1", "status": "success"})
await shows("completed successfully")
""",
    "message_passing": """
approval = await start("approval_workflow", input=module.ApprovalRequest(request_id="r-1"))
await shows("waiting for approval")
await post("approver_workflow", {"target_id": approval, "decision": True})
await shows("Request r-1 approved")
await post("notification_service", {"service_id": "s-1"})
await shows("Service s-1 joined")
await post("notification_service", {"service_id": "s-2"})
await shows("Service s-2 joined")
await settled()
await post("order_processor", {"order_id": "o-1"})
await shows("Published order notification")
await shows("'service': 's-1'")
await shows("'service': 's-2'")
""",
    "long_running_loop": """
await post("batch_processor", {"total_items": 25, "batch_size": 10})
await shows("Progress: 25/25")
await post("event_listener", {"listener_id": "l-1"})
await shows("processed so far: 0")
await settled()
await post("event_publisher", {"message": "one"})
await shows("processed so far: 1")
""",
    # A module that only defines; its workflow is started.
    "typeddict_example": """
await start("typeddict_order_workflow", input={
    "order_id": "o-1", "product_name": "Widget", "quantity": 5, "price": 19.99})
await shows("Workflow completed")
""",
}

DRIVER = """
import asyncio, importlib.util, io, json, sys

class Tee(io.TextIOBase):
    def __init__(self, out):
        self.out, self.text = out, ""
    def write(self, text):
        self.text += text
        return self.out.write(text)
    def flush(self):
        self.out.flush()

sys.stdout = tee = Tee(sys.stdout)
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
module = sys.modules["example"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
app = getattr(module, "application", None) or module.app

async def start(name, **values):
    return await getattr(module, name).start(**values)

async def shows(text):
    for _ in range(300):
        if text in tee.text:
            return
        await asyncio.sleep(0.1)
    raise SystemExit("it never showed " + text)

async def settled():
    # Nothing tells when a subscription is stored.
    await asyncio.sleep(2)

async def post(type, data):
    event = dict(specversion="1.0", type=type, source="client", id="e-1", data=data)
    body = json.dumps(event).encode()
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
             "path": "/", "raw_path": b"/", "query_string": b"", "root_path": "", "scheme": "http",
             "headers": [(b"content-type", b"application/cloudevents+json")],
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}
    async def send(message):
        if message["type"] == "http.response.start" and message["status"] >= 300:
            raise SystemExit(f"{type}: HTTP status {message['status']}")
    await app(scope, receive, send)

async def main():
    await app.initialize()
    try:
CLIENT
    finally:
        await app.shutdown()

asyncio.run(main())
"""


def fetch(folder: str) -> pathlib.Path:
    """The folder with the examples. pip cannot make metadata of that archive, and leaves it there."""
    command = [sys.executable, "-m", "pip", "download", "--no-clean", "--no-deps", "--no-binary",
               ":all:", "edda-framework==0.16.2"]
    subprocess.run(command, cwd=folder, env={**os.environ, "TMPDIR": folder}, capture_output=True)
    found = sorted(pathlib.Path(folder).rglob("examples/simple_workflow.py"))
    if not found:
        sys.exit("the examples cannot be fetched")
    return found[0].parent


class Broker(http.server.BaseHTTPRequestHandler):
    """Takes every event."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def run(python: str, source: str, name: str, broker: str) -> tuple[int, str, str]:
    """Runs a program in a folder of its own: its exit code, what it prints but ids and times, and
    what it says of errors."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, f"{name}.py")
        file.write_text(source)
        command = [python, str(file)]
        if name in CLIENTS:
            driver = pathlib.Path(folder, "driver.py")
            client = "\n".join(" " * 8 + line for line in CLIENTS[name].strip().splitlines())
            driver.write_text(DRIVER.replace("CLIENT", client))
            command = [python, str(driver), str(file)]
        environment = {**os.environ, "BROKER_URL": broker, "LOGFIRE_SEND_TO_LOGFIRE": "false",
                       "LOGFIRE_CONSOLE": "false", "LOGFIRE_TOKEN": "", "PYTHONUNBUFFERED": "1"}
        try:
            ended = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=120, env=environment
            )
        except subprocess.TimeoutExpired:
            return -1, "", "it does not end"
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|[0-9a-f]{32}", "ID", ended.stdout)
    text = re.sub(r"\d\d:\d\d:\d\d(\.\d+)?", "TIME", text)
    # What Edda prints about itself is not what the example prints.
    lines = [line for line in text.splitlines() if "Auto-registered compensation" not in line]
    errors = re.sub(r"\b\w+-[0-9a-f]{32}\b", "ID", ended.stderr)
    return ended.returncode, "\n".join(lines), errors


def told(name: str, here: tuple[int, str, str], there: tuple[int, str, str]) -> tuple[str, str]:
    """The two cells of an example: whether it runs, and what it prints."""
    mended = f" ({MENDED[name][2]})" if name in MENDED else ""
    if here[0] == there[0] and here[1] == there[1]:
        lines = len(here[1].splitlines())
        code = f", and the same exit code {here[0]}" if here[0] else ""
        return "yes", (f"the same {lines} lines{code}" if lines else "nothing, as there") + mended
    if here[0] != 0:
        last = (here[2].strip().splitlines() or ["?"])[-1]
        return "no", f"exit code {here[0]}: {last} (Edda: {there[0]})"
    if there[0] != 0:
        last = re.sub(r" \(/.*\)$", "", (there[2].strip().splitlines() or ["?"])[-1])
        return "yes", f"{len(here[1].splitlines())} lines; Edda itself ends with `{last}`" + mended
    return "yes", DIFFERENCES.get(name, "something else, for no reason that is known") + mended


def main(theirs: str, names: list[str]) -> None:
    """Prints the table, and where the outputs differ."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    broker = f"http://127.0.0.1:{server.server_address[1]}/"
    differences: list[str] = []
    print("| example | runs | what it prints |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(fetch(folder).glob("*.py")):
            name = file.stem
            if name == "__init__":
                continue
            if name in WHY_NOT:
                print(f"| `{name}` | no | {WHY_NOT[name]} |", flush=True)
                continue
            if names and name not in names:
                continue
            source = file.read_text()
            if name in MENDED:
                source = source.replace(*MENDED[name][:2])
            ours = re.sub(r"^( *from )edda\b", r"\1resurgam.edda", source, flags=re.MULTILINE)
            here = run(sys.executable, ours, name, broker)
            there = run(theirs, source, name, broker)
            runs, prints = told(name, here, there)
            print(f"| `{name}` | {runs} | {prints} |", flush=True)
            lines = difflib.unified_diff(
                there[1].splitlines(), here[1].splitlines(), f"Edda, {name}", "Resurgam",
                lineterm="", n=0,
            )
            differences += [*lines, *([here[2]] if here[0] else [])]
    server.shutdown()
    print("", *differences, sep="\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
