"""A worker for Resurgam in plain Python: the standard library, and nothing else.

    worker = Worker("http://127.0.0.1:8460")  # RESURGAM_TOKEN has the token, if one is asked for
    @worker.activity(timeout="10s")
    def charge(task):
        return {"paid": task.input["cents"]}
    worker.run()
"""
import json, os, queue, secrets, threading, time, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor

class Failure(Exception):
    """Why an attempt failed, as policies match it. Any other exception is one by its class."""
    def __init__(self, message, type="Failure", **more):  # code, retryable, retry_after, details
        super().__init__(message)
        self.report = {"type": type, "message": message, **more}

class Snooze(Exception):
    """Run me again after this time, such as "30s"; it counts as no failure."""

class Task:
    def __init__(self, worker, told):
        self.__dict__.update(told)  # task, activity, attempt, instance, input, idempotency_key, ...
        self.worker, self.cancelled = worker, threading.Event()
    def heartbeat(self, details=None):
        self.worker.reports.put({"task": self.task, "heartbeat": details})

class Worker:
    def __init__(self, url, slots=10, queues=(), token=os.environ.get("RESURGAM_TOKEN")):
        self.url, self.slots, self.queues = url.rstrip("/"), slots, list(queues)
        self.headers = {"Content-Type": "application/json"}
        self.headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self.session, self.lease = secrets.token_hex(16), 3  # until a poll has told
        self.offers, self.functions, self.running = [], {}, {}
        self.reports, self.changed = queue.Queue(), threading.Condition()
        self.ends = threading.Event()
    def activity(self, name=None, **options):  # retry={...}, timeout="10s"
        def offer(function):
            self.functions[name or function.__name__] = function
            self.offers.append({"name": name or function.__name__, **options})
            return function
        return offer
    def ask(self, what, **body):
        """Asks until there is an answer: a report must not be lost with a connection."""
        body = json.dumps({"protocol": 1, "session": self.session, **body}).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/worker/{what}", body, self.headers)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=90) as answer:
                    told = json.load(answer)
                    break
            except urllib.error.HTTPError as error:
                if (error.code, what) == (413, "report"):
                    return None
                if error.code < 500 and error.code != 429:
                    print(f"{what}: {error.code} {error.read().decode()}", flush=True)
                    os._exit(1)
            except OSError:
                pass  # The server is away, and comes back.
            if self.ends.is_set() and what != "report":
                return {}
            time.sleep(1)
        self.lease = told.get("lease_ms", self.lease * 1000) / 1000
        for task in map(self.running.get, told.get("cancel", [])):
            task and task.cancelled.set()
        return told
    def run(self):
        threading.Thread(target=self.report, daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()
        with ThreadPoolExecutor(self.slots) as pool:
            while not self.ends.is_set():
                with self.changed:
                    self.changed.wait_for(lambda: len(self.running) < self.slots)
                    running = list(self.running)
                told = self.ask("poll", activities=self.offers, queues=self.queues, wait_ms=20_000,
                                running=running, max=self.slots - len(running))
                for task in [Task(self, one) for one in told.get("tasks", [])]:
                    self.running[task.task] = task
                    pool.submit(self.attempt, task)
        with self.changed:
            self.changed.wait_for(lambda: not self.running)
    def stop(self):
        self.ends.set()  # `run` takes no more, and returns when those that run are reported.
    def attempt(self, task):
        try:
            said = {"result": self.functions[task.activity](task)}
            json.dumps(said)
        except Snooze as snooze:
            said = {"snooze": str(snooze)}
        except Failure as failure:
            said = {"failure": failure.report}
        except Exception as error:
            mro = [of.__name__ for of in type(error).__mro__ if of is not object]
            said = {"failure": {"type": mro[0], "mro": mro, "message": str(error)}}
            said = {"cancelled": True} if task.cancelled.is_set() else said
        self.reports.put({"task": task.task, **said})
    def report(self):
        most = 100
        while True:
            batch = [self.reports.get()]
            while len(batch) < most and not self.reports.empty():
                batch.append(self.reports.get())
            told = self.ask("report", reports=batch)
            if told is None:  # Too large together: fewer at once. By itself: a failure.
                failure = {"type": "TooLarge", "message": "its report is", "retryable": False}
                if len(batch) == 1:
                    batch = [{"task": batch[0]["task"], "failure": failure}]
            most = 100 if told else max(1, len(batch) // 2)
            for report in batch:
                if not told or report["task"] not in told["recorded"] + told["over"]:
                    self.reports.put(report)
                elif "heartbeat" not in report:
                    with self.changed:
                        self.running.pop(report["task"], None)
                        self.changed.notify_all()
    def beat(self):
        while True:
            time.sleep(self.lease / 3)
            self.ask("beat", running=list(self.running))
