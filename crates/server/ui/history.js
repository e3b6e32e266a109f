// The history of a run, the newest first: events, attempts, and what people did. A history of any length is
// there as a whole; what is near the window is asked for and drawn.
import { html } from "./vendor/html.js";
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { to } from "./address.js";
import { ask } from "./api.js";
import { Parts, useStill } from "./lists.js";
import { Trouble } from "./parts.js";
import { Sign } from "./shapes.js";
import { clock as hours, failed, many, message, moment, span } from "./words.js";

/** As many events are asked for at once. */
const SECTION = 100;
/** As many are kept of the newest ones, which the timeline draws. */
const KEPT = 2_000;
const PAGE = 500;

/**
 * The newest events of a run: what comes is asked for by its place.
 * @returns {{events: any[], isPart: boolean, problem: any}}
 */
export function useNewest(uid, run, revision) {
  const have = useRef(/** @type {any[]} */ ([]));
  const [isPart, setPart] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [busy, again] = [useRef(false), useRef(false)];
  const [, drawn] = useState(0);
  const read = async () => {
    again.current = busy.current;
    if (busy.current) return;
    busy.current = true;
    try {
      const last = have.current.at(-1)?.seq;
      const path = last === undefined ? `newest?run=${run}&limit=${PAGE}` : `events?run=${run}&after=${last}&limit=${PAGE}`;
      const { items, cursor } = await ask(`instances/${uid}/${path}`);
      if (items.length) {
        const all = [...have.current, ...items];
        have.current = all.slice(-KEPT);
        setPart((before) => before || all.length > KEPT || (last === undefined && cursor !== null));
        drawn((n) => n + 1);
      }
      if (last !== undefined && cursor !== null) again.current = true;
      setProblem(null);
    } catch (wrong) {
      setProblem(wrong);
    }
    busy.current = false;
    if (again.current) read();
  };
  useEffect(() => {
    read();
  }, [uid, run, revision]);
  return { events: have.current, isPart, problem };
}

/**
 * The attempts of a run that did not succeed at once, all of them, page by page.
 * @returns {any[]}
 */
export function useLedger(uid, run, revision) {
  const have = useRef(/** @type {any[]} */ ([]));
  const busy = useRef(false);
  const [, drawn] = useState(0);
  const read = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      for (let cursor = /** @type {string | null} */ (""); cursor !== null; ) {
        const page = await ask(`instances/${uid}/attempts?run=${run}&after=${have.current.length}&limit=${PAGE}`);
        cursor = page.cursor;
        if (page.items.length) {
          have.current = [...have.current, ...page.items];
          drawn((n) => n + 1);
        }
      }
    } catch {
      // The events say that the server does not answer; attempts come with the next look.
    }
    busy.current = false;
  };
  useEffect(() => {
    read();
  }, [uid, run, revision]);
  return have.current;
}

/** @type {Record<string, string>} */
const EVENTS = {
  ActivityCompleted: "done",
  ChildCompleted: "done",
  RunCompleted: "done",
  ActivityFailed: "failed",
  ChildFailed: "failed",
  RunFailed: "incomplete",
  RunCancelled: "compensated",
  TimerStarted: "timer",
  TimerFired: "timer",
  SignalReceived: "signal",
  ChildStarted: "child",
  CompensationRecorded: "compensated",
  CancelRequested: "operator",
  TerminateRequested: "operator",
};

/**
 * What happened, in order of time: events, attempts, and what people did.
 * @returns {{at: number, seq: number | null, sign: string, says: any, key: string, by?: boolean}[]}
 */
function story(events, attempts, actions, uid, run) {
  const entries = events.map((event) => ({
    at: event.at_ms,
    seq: event.seq,
    sign: EVENTS[event.kind] ?? "event",
    says: html`<b>${event.kind}</b> ${about(event, uid, run)}`,
    key: `e${event.seq}`,
  }));
  const tries = attempts.map((row) => ({
    at: row.ended_at_ms,
    seq: null,
    sign: row.outcome === "failed" ? "failed" : "lost",
    key: `a${row.call} ${row.attempt} ${row.ended_at_ms}`,
    says: html`<a href=${to("call", row.call)}>${row.activity}#${row.call.split(".").pop()}</a> attempt ${row.attempt} ${row.outcome}${row.failure ? html`: ${failed(row.failure)}, ${message(row.failure)}` : ""}; ${row.delay_ms === null ? row.why : `again in ${span(row.delay_ms)}`}`,
  }));
  const deeds = actions.map((row) => ({
    at: row.at_ms,
    seq: null,
    sign: "operator",
    by: true,
    key: `o${row.request_id}`,
    says: html`${row.by}: ${row.action}${row.call ? ` of #${row.call.split(".").pop()}` : ""}${row.reason ? html` (“${row.reason}”)` : ""}; ${row.answer}`,
  }));
  // A stable sort: at the same time the attempt comes before the event that it led to.
  return [...tries, ...deeds, ...entries].sort((a, b) => a.at - b.at);
}

/** What an event says, as text. */
function about({ kind, data, seq }, uid, run) {
  const of = data.activity ?? data.timer ?? data.child;
  const name = data.name ?? data.workflow ?? data.id ?? data.change ?? data.key;
  const payload =
    data.input?.inputs ??
    data.input ??
    data.result ??
    data.value ??
    (data.failure && (message(data.failure) || failed(data.failure)));
  const link = kind === "ActivityScheduled" ? html`<a href=${to("call", `${uid}.${run}.${seq}`)}>${name}</a>` : name;
  return html`${of !== undefined && of !== null && typeof of !== "object" ? `#${of} ` : ""}${link ?? ""} ${payload === undefined || payload === null ? "" : html`<code>${short(payload)}</code>`}`;
}

/** @param {any} value */
function short(value) {
  if (value?.$payload) return value.$payload.hidden ? "hidden" : `${value.$payload.bytes} bytes`;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 140 ? `${text.slice(0, 139)}…` : text;
}

/**
 * Leads to an event. What lies between is measured on the way, so the way is looked for until the event is
 * there, or until somebody goes another one.
 * @param {number} wanted
 */
function lead(wanted) {
  const look = () => {
    const line = document.querySelector("#history [aria-current]");
    const part = document.querySelector(`#history [data-part="${Math.floor((wanted - 1) / SECTION)}"]`);
    if (line) line.scrollIntoView({ block: "center" });
    else part?.scrollIntoView({ block: "start" });
    if (line) settled += 1;
    if (settled > 3) end();
  };
  let settled = 0;
  const timer = setInterval(look, 100);
  const end = () => {
    clearInterval(timer);
    for (const kind of KINDS) removeEventListener(kind, end);
  };
  const KINDS = ["wheel", "touchstart", "keydown", "pointerdown"];
  for (const kind of KINDS) addEventListener(kind, end, { passive: true });
  look();
  return end;
}

/**
 * @param {{events: any[], attempts: any[], actions: any[], uid: string, run: number, created: number, wanted: number}} props
 * `wanted` is the event that a link is about; 0 without.
 */
export function History({ events, attempts, actions, uid, run, created, wanted }) {
  const { value, isOld, show, box } = useStill({ last: events.at(-1)?.seq ?? 0, attempts, actions });
  const read = useRef(/** @type {Map<number, any[]>} */ (new Map()));
  const sections = Math.ceil(value.last / SECTION);
  const isThere = sections > 0;
  useEffect(() => (wanted && isThere ? lead(wanted) : undefined), [wanted, isThere]);
  if (!events.length) return html`<p class="quiet" aria-busy="true">Asking the server.</p>`;
  return html`<div ref=${box}>
    <div class="freshbar" role="status">${isOld && html`<button type="button" class="fresh" onClick=${show}><${Sign} name="retrying" size=${15} />More has happened, show it</button>`}</div>
    <div class="hist" id="history" role="list" aria-label="What happened, the newest first">
    <${Parts} count=${sections} name=${(i) => sections - 1 - i} guess=${SECTION * 29} part=${(section) => html`<${Section} section=${section} last=${value.last} events=${events} read=${read.current} attempts=${value.attempts} actions=${value.actions} uid=${uid} run=${run} created=${created} wanted=${wanted} />`} /></div></div>
    <p class="quiet after">${many(value.last, "event")}, the newest first, from ${hours(created)} UTC on.</p>`;
}

function Section({ section, last, events, read, attempts, actions, uid, run, created, wanted }) {
  const [from, end] = [section * SECTION + 1, Math.min((section + 1) * SECTION, last)];
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [, drawn] = useState(0);
  // The event before the section says when it begins: attempts stand between events.
  const near = events[0].seq <= Math.max(1, from - 1);
  const told = near ? events : read.get(section);
  useEffect(() => {
    if (told) return;
    const control = new AbortController();
    ask(`instances/${uid}/events?run=${run}&after=${Math.max(0, from - 2)}&limit=${SECTION + 1}`, { signal: control.signal })
      .then(({ items }) => {
        read.set(section, items);
        drawn((n) => n + 1);
      })
      .catch((wrong) => control.signal.aborted || setProblem(wrong));
    return () => control.abort();
  }, [section, !told]);
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (!told) return html`<p class="quiet gap" aria-busy="true">Asking for events ${from} to ${end}.</p>`;
  const mine = told.filter(({ seq }) => seq >= from && seq <= end);
  const before = told.find(({ seq }) => seq === from - 1);
  const [begins, ends] = [before ? before.at_ms : -Infinity, end === last ? Infinity : (mine.at(-1)?.at_ms ?? Infinity)];
  const within = (at) => at > begins && at <= ends;
  const lines = story(mine, attempts.filter((row) => within(row.ended_at_ms)), actions.filter((row) => within(row.at_ms)), uid, run);
  return lines.reverse().map(
    (line) => html`<div role="listitem" class="line" key=${line.key} aria-current=${line.seq !== null && line.seq === wanted ? "true" : null}>
    ${line.seq === null ? html`<span class="n"></span>` : html`<a class="n" href=${to("instance", uid, { event: line.seq, run })} aria-label="Event ${line.seq}">${line.seq}</a>`}
    <time title=${moment(line.at)} datetime=${new Date(line.at).toISOString()}>+${span(line.at - created)}</time>
    <${Sign} name=${line.sign} size=${15} />
    <span class="${line.seq === null ? "ledger" : ""} ${line.by ? "op" : ""}">${line.says}</span></div>`,
  );
}
