// The timeline of a run: each call as a flight of steps, drawn to time. Up is an attempt, across is a
// wait, a disc is done. Waits of people, timers, signals and children have rows of their own.
import { html } from "./vendor/html.js";
import { to } from "./address.js";
import { useWidth } from "./parts.js";
import { disc, fell, ghost, line, lost, path, rect, text } from "./shapes.js";
import { clock, span } from "./words.js";

/** As many rows as are drawn; the history has all. */
const ROWS = 60;
/** As many of each child, the newest ones. */
const INNER = 12;

/**
 * @typedef {{seq: number, name: string, kind: "call" | "timer" | "child", from: number, until: number | null, how: string,
 *   attempts: any[], call: string, max: number | null, failures: number, due: number | null, running: number | null, paused: boolean,
 *   gated: boolean, began: number, undoes: boolean, depth: number, uid: string}} Row
 * `depth` is 1 for what a child does, and `uid` is the child's where that is known.
 */

/**
 * The rows of a timeline, out of what the API tells.
 * @param {any[]} events @param {any[]} attempts @param {any} instance @param {number} run
 * @returns {{rows: Row[], marks: {at: number, name: string}[]}}
 */
export function rowsOf(events, attempts, instance, run) {
  /** @type {Map<number, Row>} */
  const rows = new Map();
  /** @type {{at: number, name: string}[]} */
  const marks = [];
  /** @type {Map<string, any[]>} */
  const byCall = new Map();
  for (const it of attempts) byCall.set(it.call, [...(byCall.get(it.call) ?? []), it]);
  const pending = new Map(run === instance.run ? instance.pending.map((call) => [call.seq, call]) : []);
  const row = (event, kind, name, due = null) => {
    const call = `${instance.uid}.${run}.${event.seq}`;
    const mine = byCall.get(call) ?? [];
    rows.set(event.seq, {
      seq: event.seq,
      name,
      kind,
      from: event.at_ms,
      until: null,
      how: "open",
      attempts: mine,
      call,
      max: null,
      failures: mine.filter((it) => it.outcome === "failed").length,
      due,
      running: null,
      paused: false,
      gated: false,
      began: event.at_ms,
      undoes: !!event.data.compensates,
      depth: 0,
      uid: "",
    });
  };
  const ends = (seq, event, how) => {
    const found = rows.get(seq);
    if (!found) return;
    found.until = event.at_ms;
    found.how = how;
    found.began = event.data.started_at_ms ?? found.from;
  };
  for (const event of events) {
    const { data } = event;
    switch (event.kind) {
      case "ActivityScheduled":
        row(event, "call", data.name);
        break;
      case "ActivityCompleted":
        ends(data.activity, event, "done");
        break;
      case "ActivityFailed":
        ends(data.activity, event, "failed");
        break;
      case "ActivityCancelled":
        ends(data.activity, event, "cancelled");
        break;
      case "TimerStarted":
        row(event, "timer", "timer", data.fire_at_ms);
        break;
      case "TimerFired":
        ends(data.timer, event, "done");
        break;
      case "TimerCancelled":
        ends(data.timer, event, "cancelled");
        break;
      case "ChildStarted":
        row(event, "child", data.id);
        break;
      case "ChildCompleted":
        ends(data.child, event, "done");
        break;
      case "ChildFailed":
        ends(data.child, event, "failed");
        break;
      case "SignalReceived":
        marks.push({ at: event.at_ms, name: data.name });
        break;
    }
  }
  for (const [seq, call] of pending) {
    const found = rows.get(seq);
    if (!found) continue;
    Object.assign(found, {
      max: call.max_attempts,
      failures: call.failures,
      due: call.running || call.paused ? null : call.next_due_ms,
      running: call.running ? call.started_at_ms : null,
      paused: !!call.paused,
      gated: call.waits_for === "gate",
    });
  }
  return { rows: [...rows.values()], marks };
}

/** What children do, below the line of each. @param {Row[]} rows @param {Map<number, any>} children */
const nested = (rows, children) =>
  rows.flatMap((row) => {
    const child = row.kind === "child" && children.get(row.seq);
    if (!child) return [row];
    const inner = rowsOf(child.events, child.attempts, child.instance, child.instance.run).rows;
    return [{ ...row, uid: child.instance.uid }, ...inner.slice(-INNER).map((it) => ({ ...it, depth: 1 }))];
  });

/**
 * @param {{isPart: boolean, events: any[], attempts: any[], instance: any, run: number, now: number, children_: Map<number, any>}} props
 */
export function Timeline({ isPart, events, attempts, instance, run, now, children_ }) {
  const [box, W] = useWidth();
  const { rows: own, marks } = rowsOf(events, attempts, instance, run);
  const rows = nested(own, children_);
  const drawn =
    rows.length > ROWS ? rows.filter((row) => row.how === "open" || row.attempts.length).slice(-ROWS) : rows;
  const begin = events[0]?.at_ms ?? instance.created_at_ms;
  return html`<div ref=${box} class="chart">${W > 0 && html`<${Drawing} W=${W} rows=${drawn.slice(-ROWS)} marks=${marks} begin=${begin} instance=${instance} isOpen=${instance.closed_at_ms === null && run === instance.run} now=${now} last=${events.at(-1)?.at_ms ?? begin} />`}
    ${isPart && html`<p class="quiet">Drawn from ${clock(begin)} on: the newest events of a long history.</p>`}
    ${rows.length > drawn.length && html`<p class="quiet">${drawn.length} of ${rows.length} calls and timers are drawn: those that are open or were tried again. The history has all.</p>`}</div>`;
}

/** A step between two marks of the axis. @param {number} ms @param {number} most */
function tick(ms, most) {
  const steps = [
    100, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000,
  ];
  return steps.find((step) => ms / step <= most) ?? ms / most;
}

function Drawing({ W, rows, marks, begin, instance, isOpen, now, last }) {
  const small = W < 700;
  const [L, R, head, label] = [small ? 0 : 156, small ? 4 : 12, 22, small ? 16 : 0];
  const past = Math.max(isOpen ? now : last, last) - begin;
  // Far dues must not press what has happened into nothing: at most as much ahead as lies behind.
  const ahead = isOpen
    ? Math.max(...rows.map((row) => Math.min(row.due ?? 0, now + past * 0.35) - now), past * 0.08)
    : 0;
  const all = Math.max(past + ahead, 100);
  const X = (at) => L + (Math.min(Math.max(at - begin, 0), all) / all) * (W - L - R);
  const high = (row) =>
    row.kind === "call" && (row.attempts.length || row.how === "open") ? (row.attempts.length > 1 ? 110 : 64) : 30;
  const H = head + rows.reduce((sum, row) => sum + high(row) + label, 0) + 26;
  const step = tick(all, small ? 3 : 8);
  const ticks = Array.from({ length: Math.floor(all / step) + 1 }, (_, i) => i * step);
  let y = head;
  const placed = rows.map((row) => {
    const at = y + label;
    y += high(row) + label;
    return { row, y: at, h: high(row) };
  });
  return html`<svg width=${W} height=${H} viewBox="0 0 ${W} ${H}" role="group" aria-label="Timeline of ${instance.id}">
    ${ticks.map((ms) => html`${line(X(begin + ms), 16, X(begin + ms), H - 20, "l-rule l-1")}${Math.abs(X(begin + ms) - X(now)) > 36 || !isOpen ? text(X(begin + ms) + (ms ? 0 : 1), 11, ms ? `+${span(ms)}` : clock(begin), "t-q", ms ? (X(begin + ms) > W - 30 ? "end" : "middle") : "start") : ""}`)}
    ${isOpen && rect(X(now), 16, W - R - X(now), H - 36, "f-sunk")}
    ${placed.map(({ row, y, h }) => html`<${Flight} row=${row} y=${y} h=${h} X=${X} W=${W - R} now=${now} small=${small} isOpen=${isOpen} />`)}
    ${marks.map(({ at, name }) => html`<g><title>signal ${name} at ${clock(at)}</title>
      <line x1=${X(at)} y1="16" x2=${X(at)} y2=${H - 14} class="l-ink2 l-1 dots" />${path(`M${X(at) - 5} ${H - 14}h10l-5 9z`, "f-ink")}${text(X(at) + 9, H - 6, name, "t-q", X(at) > W - 90 ? "end" : "start")}</g>`)}
    ${isOpen && html`${line(X(now), 16, X(now), H - 20, "l-ink l-15")}${rect(X(now) - 17, 0, 34, 16, "f-ink")}${text(X(now), 12, "now", "t-now", "middle")}`}
  </svg>`;
}

/** A place that says what it is when it is pointed at, or has the focus. */
const spot = (x, y, w, h, note) =>
  html`<g tabindex="0" role="img" aria-label=${note}>
    <title>${note}</title>${rect(x - 1, y - 2, Math.max(w, 8) + 2, h + 4, "hit")}</g>`;

function Flight({ row, y, h, X, W, now, small, isOpen }) {
  const base = y + h - 6;
  const inset = row.depth * 14;
  const name = text(inset, small ? y - 3 : base - 3, [
    html`<tspan class="t-ink ${row.depth ? "" : "t-b"}">${short(row.name, (small ? 34 : 18) - row.depth * 2)}</tspan>`,
    html`<tspan class="t-q" dx="6">${row.kind === "call" ? `#${row.seq}` : row.kind}</tspan>`,
  ]);
  const body =
    row.kind === "call"
      ? steps(row, base, h - 18, X, W, now, isOpen)
      : span_(row, base - h / 2 + 8, X, W, now, isOpen);
  const href = row.kind === "call" ? to("call", row.call) : row.uid ? to("instance", row.uid) : "";
  const label = row.kind === "call" ? `Call ${row.name}#${row.seq}${row.depth ? " of a child" : ""}` : `Child ${row.name}`;
  return html`<g>${row.depth ? path(`M4 ${base - 16}v9h7`, "l-rule2 l-1") : ""}${href ? html`<a href=${href} aria-label=${label}>${name}</a>` : name}${body}</g>`;
}

/** @param {string} name @param {number} most */
const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** A timer or a child. */
function span_(row, y, X, W, now, isOpen) {
  const end = row.until ?? (isOpen ? Math.max(row.due ?? now, now) : row.from);
  const isTimer = row.kind === "timer";
  const note = isTimer
    ? `timer, ${row.until ? row.how : `fires at ${clock(row.due)}`}`
    : `child ${row.name}, ${row.how}`;
  return html`${line(X(row.from), y, X(end), y, isTimer ? "l-wait l-15" : "l-ink2 l-15")}${line(X(row.from), y - 4, X(row.from), y + 4, isTimer ? "l-wait l-15" : "l-ink2 l-15")}
    ${row.until ? (row.how === "done" ? disc(X(end), y, 3.4, "f-done") : line(X(end), y - 5, X(end), y + 5, row.how === "failed" ? "l-mad l-2" : "l-ink2 l-2")) : path(`M${X(end) - 5} ${y - 5}l6 5-6 5`, isTimer ? "l-wait l-15" : "l-ink2 l-15")}
    ${spot(X(row.from), y - 6, X(end) - X(row.from), 12, note)}`;
}

/** The steps of a call. */
function steps(row, base, full, X, W, now, isOpen) {
  const top = row.max ?? (row.how === "failed" ? Math.max(row.failures, 1) : Math.max(row.failures + 2, 4));
  const up = (n) => (full * Math.min(n, top)) / top;
  const parts = [line(X(row.from), base + 0.5, X(row.until ?? now), base + 0.5, "l-rule2 l-1")];
  if (row.max && row.how === "open")
    parts.push(
      line(
        X(row.from),
        base - full,
        W,
        base - full,
        row.paused && row.failures >= row.max ? "l-mad l-3" : "l-rule2 l-1",
      ),
    );
  let failed = 0;
  row.attempts.forEach((attempt, i) => {
    const x = X(attempt.started_at_ms);
    const w = Math.max(3.5, X(attempt.ended_at_ms) - x);
    const step = up(failed + 1);
    if (attempt.outcome === "failed") {
      parts.push(fell(x, base - step, w, step));
      failed += 1;
    } else parts.push(lost(x, base - step, w, step));
    const next =
      row.attempts[i + 1]?.started_at_ms ??
      row.running ??
      (row.how === "open" ? (row.due ?? now) : row.how === "done" ? row.began : attempt.ended_at_ms);
    const wait = X(next) - x - w;
    // A call that is paused waits for a person, not for a delay.
    const isHeld = row.paused && i === row.attempts.length - 1;
    if (wait > 0.5 && isHeld)
      parts.push(
        line(x + w, base - up(failed), x + w + wait, base - up(failed), "l-plum l-2"),
        spot(x + w, base - up(failed), wait, up(failed), `paused since ${clock(attempt.ended_at_ms)}: ${attempt.why}`),
      );
    else if (wait > 0.5)
      parts.push(
        rect(
          x + w,
          base - up(failed),
          wait,
          up(failed),
          row.gated && i === row.attempts.length - 1 ? "f-park" : "f-wait",
        ),
        line(x + w, base - up(failed), x + w + wait, base - up(failed), "l-wait l-15"),
        spot(
          x + w,
          base - up(failed),
          wait,
          up(failed),
          `waits${attempt.delay_ms === null ? "" : ` ${span(attempt.delay_ms)}`}: ${attempt.why}`,
        ),
      );
    parts.push(
      spot(
        x,
        base - step,
        w,
        step,
        `attempt ${attempt.attempt} ${attempt.outcome}: ${attempt.failure?.message ?? attempt.why}`,
      ),
    );
  });
  const step = up(failed + 1);
  const began = X(row.began);
  if (row.how === "done")
    parts.push(
      rect(began, base - step, Math.max(3.5, X(row.until) - began), step, "f-done"),
      disc(Math.max(began + 2, X(row.until) - 2), base - step - 6, 3.8, "f-done"),
      spot(
        began,
        base - step,
        X(row.until) - began,
        step,
        `done after ${span(row.until - row.from)}, attempt ${row.attempts.length + 1}`,
      ),
    );
  if (row.how === "failed") parts.push(rect(X(row.until) - 14, base - full - 4, 28, 4, "f-mad"));
  if (row.how === "cancelled") parts.push(line(X(row.until), base - 12, X(row.until), base, "l-ink2 l-2"));
  if (isOpen && row.running)
    parts.push(
      rect(X(row.running), base - step, Math.max(4, X(now) - X(row.running)), step, "f-run"),
      spot(
        X(row.running),
        base - step,
        X(now) - X(row.running),
        step,
        `attempt runs since ${span(now - row.running)}`,
      ),
    );
  if (isOpen && row.paused)
    parts.push(rect(X(now) - 12, base - full, 4, full, "f-plum"), rect(X(now) - 5, base - full, 4, full, "f-plum"));
  if (isOpen && row.how === "open" && row.due && !row.paused) {
    const x = Math.min(X(Math.max(row.due, now)), W - 12);
    parts.push(
      ghost(x, base - step, 11, step),
      text(
        Math.min(x + 5, W),
        base - step - 5,
        row.due > now ? `in ${span(row.due - now)}` : "due",
        "t-wait t-b",
        x > W - 40 ? "end" : "middle",
      ),
      spot(x, base - step, 12, step, `the next attempt ${row.due > now ? `begins at ${clock(row.due)}` : "is due"}`),
    );
  }
  return parts;
}
