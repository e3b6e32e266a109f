// A worker for Resurgam in JavaScript, typed by its comments for TypeScript: fetch, and nothing else.
//     import { Worker } from "./worker.mjs";
//     const worker = new Worker("http://127.0.0.1:8460"); // RESURGAM_TOKEN has the token, if one is asked for
//     worker.activity("charge", async (task) => ({ paid: task.input.cents }), { timeout: "10s" });
//     await worker.run();
/** An attempt.
 * @typedef {{task: string, activity: string, attempt: number, instance: string, queue: string,
 *   idempotency_key: string, input: any, last_heartbeat: any, timeout_ms: number | null,
 *   cancelled: AbortSignal, heartbeat: (details?: unknown) => void}} Task */

/** Why an attempt failed, with what policies match on. Any other error is one by its name. */
export class Failure extends Error {
  /** @param {string} message @param {{type?: string, code?: string, retryable?: boolean, retry_after?: string, details?: unknown}} report */
  constructor(message, report = {}) {
    super(message);
    this.report = { type: "Failure", message, ...report };
  }
}
/** Run me again after this time, such as "30s"; it counts as no failure. */
export class Snooze extends Error {}
/** @param {number} ms */
const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
export class Worker {
  session = crypto.randomUUID();
  ends = false;
  lease = 3_000; // until a poll has told
  /** @type {object[]} */ offers = [];
  /** @type {Map<string, (task: Task) => Promise<unknown>>} */ functions = new Map();
  /** @type {Map<string, AbortController>} */ running = new Map();
  /** @type {any[]} */ reports = [];
  changed = () => {};
  /** @param {string} url */
  constructor(url, { slots = 10, queues = /** @type {string[]} */ ([]), token = process.env.RESURGAM_TOKEN } = {}) {
    this.url = url; this.slots = slots; this.queues = queues;
    this.headers = { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
  }
  /** @param {string} name @param {(task: Task) => Promise<unknown>} run @param {{retry?: unknown, timeout?: string}} options */
  activity(name, run, options = {}) {
    this.functions.set(name, run);
    this.offers.push({ name, ...options });
  }
  /** Asks until there is an answer: what was reported must not be lost with a connection.
   * @param {string} what @param {object} more @returns {Promise<any>} */
  async ask(what, more) {
    const body = JSON.stringify({ protocol: 1, session: this.session, ...more });
    for (;;) {
      try {
        const answer = await fetch(`${this.url}/api/v1/worker/${what}`, { method: "POST", headers: this.headers, body });
        if (answer.ok) {
          const told = await answer.json();
          this.lease = told.lease_ms ?? this.lease;
          for (const name of told.cancel ?? []) this.running.get(name)?.abort();
          return told;
        }
        if (answer.status === 413 && what === "report") return null;
        if (answer.status < 500 && answer.status !== 429) {
          console.error(`${what}: ${answer.status} ${await answer.text()}`);
          process.exit(1);
        }
      } catch { /* The server is away, and comes back. */ }
      if (this.ends && what !== "report") return {};
      await sleep(1000);
    }
  }
  async run() {
    const reporting = this.reportAll();
    void this.beat();
    while (!this.ends) {
      const running = [...this.running.keys()];
      const max = this.slots - running.length;
      if (max <= 0) { await new Promise((done) => { this.changed = () => done(undefined); }); continue; }
      const told = await this.ask("poll", { activities: this.offers, queues: this.queues, running, max, wait_ms: 20_000 });
      for (const task of told.tasks ?? []) void this.attempt(task);
    }
    await reporting;
  }
  async beat() { // Without keeping the process alive.
    for (;;) {
      await new Promise((done) => { setTimeout(done, this.lease / 3).unref(); });
      await this.ask("beat", { running: [...this.running.keys()] });
    }
  }
  /** Takes no more attempts; `run` ends when those that run are reported. */
  stop() { this.ends = true; }
  /** @param {Task} told */
  async attempt(told) {
    const ends = new AbortController();
    this.running.set(told.task, ends);
    const heartbeat = (/** @type {unknown} */ details = null) => { this.reports.push({ task: told.task, heartbeat: details }); };
    let said;
    try {
      said = { result: (await this.functions.get(told.activity)?.({ ...told, cancelled: ends.signal, heartbeat })) ?? null };
    } catch (/** @type {any} */ error) {
      if (error instanceof Snooze) said = { snooze: error.message };
      else if (error instanceof Failure) said = { failure: error.report };
      else if (ends.signal.aborted) said = { cancelled: true };
      else said = { failure: { type: error?.name ?? "Error", message: String(error?.message ?? error) } };
    }
    this.reports.push({ task: told.task, ...said });
  }
  async reportAll() {
    let most = 100;
    while (!this.ends || this.running.size > 0) {
      const batch = this.reports.splice(0, most);
      if (batch.length === 0) { await sleep(5); continue; }
      const answer = await this.ask("report", { reports: batch });
      const done = new Set(answer ? [...answer.recorded, ...answer.over] : []);
      most = answer ? 100 : Math.max(1, batch.length >> 1); // Too large together: fewer at once.
      const failure = { type: "TooLarge", message: "its report is", retryable: false };
      if (!answer && batch.length === 1) batch[0] = { task: batch[0].task, failure };
      for (const report of batch) {
        if (!done.has(report.task)) this.reports.push(report);
        else if (!("heartbeat" in report)) this.running.delete(report.task);
      }
      this.changed();
    }
  }
}
