// One instance: how it stands in a sentence, its run drawn to time, its history, its payloads, and what can
// be done about it.
import { html } from "./vendor/html.js";
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import { onCall, onInstance } from "./acts.js";
import { amend, to } from "./address.js";
import { ask, useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
import { Timeline } from "./flight.js";
import { Command, Id, Key, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Payload } from "./payload.js";
import { Sign } from "./shapes.js";
import {
  begin,
  called,
  clock as hours,
  failed,
  from,
  many,
  message,
  moment,
  sign,
  span,
  STATUS,
  waits,
  word,
} from "./words.js";

const PAGE = 500;
/** As many lines of a history as are drawn at once. */
const LINES = 300;

/** @param {{name: string, query: URLSearchParams}} props */
export function Instance({ name, query }) {
  const clock = useClock();
  const { data: instance, problem } = useAsk(`instances/${encodeURIComponent(name)}`);
  useTitle(instance ? `${instance.id}, ${instance.status}` : "Instance");
  if (!instance) return html`<${Wait} problem=${problem} />`;
  const run = Number(query.get("run")) || instance.run;
  return html`<${Lede} instance=${instance} run=${run} clock=${clock} /><${Trouble} problem=${problem} />
    <${Body} key=${`${instance.uid}.${run}`} instance=${instance} run=${run} clock=${clock} act=${query.get("act") ?? ""} />`;
}

/** How an instance stands, in the engine's voice. */
function Sentence({ instance, clock }) {
  const { status, pending, error } = instance;
  if (status === "blocked")
    return html`<h1>Is <strong>blocked</strong>: ${error ?? "its code does not fit its history"}.</h1>`;
  if (status === "paused")
    return html`<h1>Is <strong class="held">paused</strong>${instance.paused?.by ? ` by ${instance.paused.by}` : ""}${instance.paused?.reason ? html`: “${instance.paused.reason}”` : "."}</h1>`;
  if (instance.closed_at_ms !== null) {
    const took = span(instance.closed_at_ms - instance.created_at_ms);
    if (status === "completed") return html`<h1>Has <strong class="rose">completed</strong>, after ${took}.</h1>`;
    return html`<h1>Has <strong>${status}</strong> after ${took}${instance.failure ? html`: ${message(instance.failure) || failed(instance.failure)}` : ""}${instance.compensation === "incomplete" ? ", and not everything is undone." : "."}</h1>`;
  }
  const next = [...pending].sort(
    (a, b) => Number(!a.paused) - Number(!b.paused) || (a.next_due_ms ?? Infinity) - (b.next_due_ms ?? Infinity),
  )[0];
  if (next)
    return html`<h1>${begin(waits(next, clock), next.activity)}${pending.length > 1 ? html`; ${many(pending.length - 1, "more call is open", "more calls are open")}` : ""}.</h1>`;
  if (instance.waits_for_first_turn)
    return html`<h1>Is stored. <strong class="wait">Nobody who works has taken it up.</strong></h1>`;
  if (instance.timers_ms.length)
    return html`<h1>Sleeps, and goes on <strong class="wait">${from(instance.timers_ms[0], clock)}</strong>.</h1>`;
  return html`<h1>Waits for <strong class="wait">a signal or a child</strong>.</h1>`;
}

function Lede({ instance, run, clock }) {
  const { uid, id, workflow, queue, parent, schedule } = instance;
  return html`<div class="lede"><div>
    <p class="crumb"><span class="tag">
      <${Sign} name=${STATUS[instance.status] ?? "event"} size=${16} />${instance.status}</span><${Id} id=${id} />
      <a href=${to("instances", null, { workflow })}>${workflow}</a>
      ${instance.run > 1 ? html`<label>run <select value=${String(run)} onChange=${(event) => amend({ run: Number(event.target.value) === instance.run ? null : event.target.value })}>${Array.from({ length: Math.min(instance.run, 100) }, (_, i) => instance.run - i).map((n) => html`<option value=${String(n)} selected=${n === run}>${n}${n === instance.run ? ", the current one" : ""}</option>`)}</select></label>` : html`<span>run 1</span>`}
      <span>queue ${queue}</span></p>
    <${Sentence} instance=${instance} clock=${clock} />
    <p class="under">
      <span>started <b>${from(instance.created_at_ms, clock)}</b>, ${moment(instance.created_at_ms)}</span>${instance.closed_at_ms !== null ? html`<span>closed <b>${from(instance.closed_at_ms, clock)}</b></span>` : ""}
      ${parent && html`<span>child of <a href=${to("instance", parent.split(".")[0])}>its parent</a>
        </span>`}${schedule && html`<span>started by <a href=${to("schedules", null, { id: schedule })}>schedule ${schedule}</a></span>`}
      ${Object.entries(instance.tags).map(([name, value]) => html`<a href=${to("instances", null, { tag: `${name}=${value}` })}>${name}=${value}</a>`)}<span>uid <${Id} id=${uid} title="the uid" /></span></p></div>
    <div class="acts"><a class="btn" href="#act" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("act")?.scrollIntoView();
      document.getElementById("why")?.focus();
    }}>Act</a></div></div>`;
}

/**
 * The events of a run: the newest first, older ones when somebody asks for them. What is there stays there,
 * and what comes is asked for by its place.
 */
function useEvents(uid, run, revision) {
  const [told, set] = useState({ events: /** @type {any[]} */ ([]), older: /** @type {string | null} */ (null) });
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const have = useRef({ events: /** @type {any[]} */ ([]), older: /** @type {string | null} */ (null) });
  const busy = useRef(false);
  const read = async (path, join) => {
    if (busy.current) return;
    busy.current = true;
    try {
      const page = await ask(`instances/${uid}/${path}`);
      if (page.items.length) {
        have.current = join(page);
        set(have.current);
      }
      setProblem(null);
    } catch (wrong) {
      setProblem(wrong);
    }
    busy.current = false;
  };
  useEffect(() => {
    const last = have.current.events.at(-1)?.seq;
    if (last === undefined)
      read(`newest?run=${run}&limit=${PAGE}`, ({ items, cursor }) => ({ events: items, older: cursor }));
    else
      read(`events?run=${run}&after=${last}&limit=${PAGE}`, ({ items }) => ({
        events: [...have.current.events, ...items],
        older: have.current.older,
      }));
  }, [uid, run, revision]);
  const more = () =>
    read(`newest?run=${run}&before=${have.current.older}&limit=${PAGE}`, ({ items, cursor }) => ({
      events: [...items, ...have.current.events],
      older: cursor,
    }));
  return { ...told, more, problem };
}

function Body({ instance, run, clock, act }) {
  const { uid, id } = instance;
  const ledger = useAsk(`instances/${uid}/attempts?run=${run}`);
  const actions = useAsk(`instances/${uid}/actions?run=${run}`);
  const { events, older, more, problem } = useEvents(uid, run, instance);
  const attempts = ledger.data?.items ?? [];
  const current = run === instance.run;
  const acts = current ? deeds(instance, clock) : [];
  return html`<${Part} flat title="Timeline" says="Up is an attempt, across is a wait, a disc is done.">
      ${events.length > 0 && html`<${Timeline} events=${events} attempts=${attempts} instance=${instance} run=${run} now=${clock} />`}
      <${Key} of=${[
        ["failed", "attempt failed"],
        ["backoff", "backoff"],
        ["retrying", "next attempt"],
        ["lost", "lost, not counted"],
        ["done", "done"],
        ["timer", "timer"],
        ["signal", "signal"],
      ]} />
    <//>
    ${instance.pending.length > 0 && current && html`<${Part} flat title="Open calls" says="">
      <${Open} calls=${instance.pending} clock=${clock} /><//>`}
    <div class="two"><div>
      <${Part} flat title="History" says="Events are numbered; attempts and what people did stand between them.">
      <${Trouble} problem=${problem} />
        <${History} events=${events} attempts=${attempts} actions=${actions.data?.items ?? []} uid=${uid} run=${run} created=${instance.created_at_ms} older=${older} more=${more} /><//></div>
      <aside><${Part} flat title="Payloads" says="">
          <${Payload} title="Input" value=${instance.input} name="${id}-input" open />
          <${Payload} title="Result" value=${instance.result} name="${id}-result" open />
          <${Payload} title="Failure" value=${instance.failure} name="${id}-failure" open />
          ${instance.unread_signals.length > 0 && html`<p class="quiet">Signals not read yet: ${instance.unread_signals.join(", ")}</p>`}<//>
        ${acts.length > 0 && html`<${Part} flat title="Act" says="">
          <${Deed} acts=${acts} label="Act on ${id}" chosen=${act || undefined} choose=${(next) => amend({ act: next })} /><//>`}
        <${Part} flat title="On the command line" says=""><${Command} line=${`resurgam show ${word(id)}`} />
          <${Command} line=${`resurgam history ${word(id)} --attempts`} /><//></aside></div>`;
}

/** The actions on an instance; with one open call, those on the call come first. */
function deeds(instance, clock) {
  const [call] = instance.pending;
  const calls =
    instance.pending.length === 1 && instance.status === "running"
      ? onCall(call, instance.id, clock)
          .slice(0, 2)
          .map((act) => ({ ...act, title: `${act.title}: ${called(call)}` }))
      : [];
  return [...calls, ...onInstance(instance)];
}

function Open({ calls, clock }) {
  return html`<ul class="needs calls">${calls.map(
    (
      call,
    ) => html`<li data-row tabindex="-1" key=${call.call}><${Sign} name=${sign(call)} />
      <p class="say">${waits(call, clock)}<span class="sub">${called(call)}, queue ${call.queue}; ${call.failures}${call.max_attempts ? ` of ${call.max_attempts}` : ""} failed${call.lost ? `, ${call.lost} lost` : ""}${call.snoozed ? `, ${call.snoozed} snoozed` : ""}</span></p>
    <${Time} at=${call.next_due_ms ?? call.started_at_ms} now=${clock} />
      <a class="btn" href=${to("call", call.call)}>Open</a></li>`,
  )}</ul>`;
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
  const tries = attempts.map((row, i) => ({
    at: row.ended_at_ms,
    seq: null,
    sign: row.outcome === "failed" ? "failed" : "lost",
    key: `a${i}`,
    says: html`<a href=${to("call", row.call)}>${row.activity}#${row.call.split(".").pop()}</a> attempt ${row.attempt} ${row.outcome}${row.failure ? html`: ${failed(row.failure)}, ${message(row.failure)}` : ""}; ${row.delay_ms === null ? row.why : `again in ${span(row.delay_ms)}`}`,
  }));
  const deeds = actions.map((row, i) => ({
    at: row.at_ms,
    seq: null,
    sign: "operator",
    by: true,
    key: `o${i}`,
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

function History({ events, attempts, actions, uid, run, created, older, more }) {
  const [shown, show] = useState(LINES);
  // Attempts that are older than the oldest event that was read come with it.
  const first = events[0]?.at_ms ?? 0;
  const begin = older === null ? first : created;
  const lines = useMemo(
    () => story(events, attempts, actions, uid, run).filter((line) => older === null || line.at >= first),
    [events, attempts, actions],
  );
  // The newest stand first, as somebody who looks wants to know how it stands.
  const newest = useMemo(() => [...lines].reverse(), [lines]);
  if (!events.length) return html`<p class="quiet" aria-busy="true">Asking the server.</p>`;
  return html`<ol class="hist" id="history">${newest.slice(0, shown).map((line) => html`<li key=${line.key}>
    <span class="n">${line.seq ?? ""}</span>
    <time title=${moment(line.at)} datetime=${new Date(line.at).toISOString()}>+${span(line.at - begin)}</time>
    <${Sign} name=${line.sign} size=${15} />
    <span class="${line.seq === null ? "ledger" : ""} ${line.by ? "op" : ""}">${line.says}</span></li>`)}</ol>
    ${
      newest.length > shown
        ? html`<p class="acts after">
          <button type="button" onClick=${() => show(shown + LINES)}>${LINES} older</button>
          <span class="quiet">${shown} of ${newest.length.toLocaleString("en")} lines are shown</span></p>`
        : older !== null
          ? html`<p class="acts after"><button type="button" onClick=${() => {
              show(shown + PAGE);
              more();
            }}>Read what is older</button>
              <span class="quiet">the ${events.length.toLocaleString("en")} newest events are here</span></p>`
          : html`<p class="quiet after">From ${hours(begin)} UTC on, the newest first.</p>`
    }`;
}
