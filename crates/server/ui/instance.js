// One instance: how it stands in a sentence, its run drawn to time, its history, its payloads, and what can
// be done about it.
import { html } from "./vendor/html.js";
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { onCall, onInstance } from "./acts.js";
import { amend, to } from "./address.js";
import { ask, useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
import { Timeline } from "./flight.js";
import { History, useLedger, useNewest } from "./history.js";
import { Fresh, useSteady } from "./lists.js";
import { Command, Id, Key, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Payload } from "./payload.js";
import { Sign } from "./shapes.js";
import {
  begin,
  called,
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

/** As many children of a run are drawn with their calls, and as many runs of a chain are listed at first. */
const CHILDREN = 8;
const RUNS = 10;

/** @param {{name: string, query: URLSearchParams}} props */
export function Instance({ name, query }) {
  const clock = useClock();
  const { data: instance, problem } = useAsk(`instances/${encodeURIComponent(name)}`);
  useTitle(instance ? `${instance.id}, ${instance.status}` : "Instance");
  if (!instance) return html`<${Wait} problem=${problem} />`;
  const run = Number(query.get("run")) || instance.run;
  return html`<${Lede} instance=${instance} run=${run} clock=${clock} /><${Trouble} problem=${problem} />
    <${Body} key=${`${instance.uid}.${run}`} instance=${instance} run=${run} clock=${clock} wanted=${Number(query.get("event")) || 0} />`;
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
      ${parent && html`<span>child of <${Parent} call=${parent} />
        </span>`}${schedule && html`<span>started by <a href=${to("schedules", null, { id: schedule })}>schedule ${schedule}</a></span>`}
      ${Object.entries(instance.tags).map(([name, value]) => html`<a href=${to("instances", null, { tag: `${name}=${value}` })}>${name}=${value}</a>`)}<span>uid <${Id} id=${uid} title="the uid" /></span></p></div>
    <div class="acts"><a class="btn" href="#act" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("act")?.scrollIntoView();
      document.getElementById("why")?.focus();
    }}>Act</a></div></div>`;
}

function Body({ instance, run, clock, wanted }) {
  const { uid, id } = instance;
  const attempts = useLedger(uid, run, instance);
  const actions = useAsk(`instances/${uid}/actions?run=${run}`);
  const { events, isPart, problem } = useNewest(uid, run, instance);
  const children = useChildren(events, uid, run, instance);
  const current = run === instance.run;
  const acts = current ? deeds(instance, clock) : [];
  return html`<${Part} flat title="Timeline" says="Up is an attempt, across is a wait, a disc is done.">
      ${events.length > 0 && html`<${Timeline} isPart=${isPart} children_=${children} events=${events} attempts=${attempts} instance=${instance} run=${run} now=${clock} />`}
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
        <${History} events=${events} attempts=${attempts} actions=${actions.data?.items ?? []} uid=${uid} run=${run} created=${isPart || run > 1 ? instance.created_at_ms : (events[0]?.at_ms ?? instance.created_at_ms)} wanted=${wanted} /><//></div>
      <aside>${instance.run > 1 && html`<${Chain} instance=${instance} run=${run} clock=${clock} />`}<${Part} flat title="Payloads" says="">
          <${Payload} title="Input" value=${instance.input} name="${id}-input" open />
          <${Payload} title="Result" value=${instance.result} name="${id}-result" open />
          <${Payload} title="Failure" value=${instance.failure} name="${id}-failure" open />
          ${instance.unread_signals.length > 0 && html`<p class="quiet">Signals not read yet: ${instance.unread_signals.join(", ")}</p>`}<//>
        ${current && html`<${Part} flat title="Act" says=""><${Deed} acts=${acts} label="Act on ${id}" /><//>`}
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
  const { rows, changed, show, box } = useSteady(calls, (call) => call.call);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} /><ul class="needs calls">${rows.slice(0, OPEN).map(
    (
      call,
    ) => html`<li data-row tabindex="-1" key=${call.call} class=${call.gone ? "gone" : ""}><${Sign} name=${sign(call)} />
      <p class="say">${waits(call, clock)}<span class="sub">${called(call)}, queue ${call.queue}; ${call.failures}${call.max_attempts ? ` of ${call.max_attempts}` : ""} failed${call.lost ? `, ${call.lost} lost` : ""}${call.snoozed ? `, ${call.snoozed} snoozed` : ""}</span></p>
    <${Time} at=${call.next_due_ms ?? call.started_at_ms} now=${clock} />
      <a class="btn" href=${to("call", call.call)}>Open</a></li>`,
  )}</ul>${rows.length > OPEN && html`<p class="quiet after">${OPEN} of ${many(rows.length, "open call")} are shown; the timeline and the history have all.</p>`}</div>`;
}

/** As many open calls are listed. */
const OPEN = 100;

/**
 * The runs of children, to be drawn inside of the run that started them: by the place of the event that did.
 * Those that are open are looked at again whenever something changes.
 * @returns {Map<number, any>}
 */
function useChildren(events, uid, run, revision) {
  const known = useRef(/** @type {Map<number, any>} */ (new Map()));
  const busy = useRef(false);
  const [, drawn] = useState(0);
  const started = events.filter((event) => event.kind === "ChildStarted").slice(-CHILDREN);
  const ended = new Set(events.filter((event) => /^Child(Completed|Failed)$/.test(event.kind)).map((event) => event.data.child));
  const read = async () => {
    if (busy.current) return;
    busy.current = true;
    for (const event of started) {
      const before = known.current.get(event.seq);
      if (before?.isOver) continue;
      try {
        const found = before?.instance ?? (await ask(`instances?id=${encodeURIComponent(event.data.id)}`)).items[0];
        // An id can have changed hands since.
        if (found?.parent !== `${uid}.${run}.${event.seq}`) continue;
        const path = `instances/${found.uid}`;
        const [instance, newest, attempts] = await Promise.all([
          ask(path),
          ask(`${path}/newest?limit=100`),
          ask(`${path}/attempts?limit=500`),
        ]);
        const isOver = ended.has(event.seq) && instance.closed_at_ms !== null;
        known.current.set(event.seq, { instance, events: newest.items, attempts: attempts.items, isOver });
        drawn((n) => n + 1);
      } catch {
        // The child is drawn as a line then, and looked at again with the next change.
      }
    }
    busy.current = false;
  };
  useEffect(() => {
    if (started.length) read();
  }, [started.length, revision]);
  return known.current;
}

/** How a run ended. @type {Record<string, string>} */
const ENDS = { RunContinued: "went on as the next run", RunCompleted: "completed", RunFailed: "failed", RunCancelled: "cancelled" };

/** The runs of a chain, the newest first. */
function Chain({ instance, run, clock }) {
  const [shown, show] = useState(RUNS);
  const numbers = Array.from({ length: Math.min(shown, instance.run) }, (_, i) => instance.run - i);
  return html`<${Part} flat title="Runs" says="Each goes on where the one before ended."><ul class="needs members">${numbers.map((number) => html`<${Run} key=${number} uid=${instance.uid} number=${number} isCurrent=${number === instance.run} isShown=${number === run} clock=${clock} />`)}</ul>
    ${instance.run > shown && html`<p class="acts after"><button type="button" onClick=${() => show(shown + 100)}>100 more</button><span class="quiet">${shown} of ${instance.run} are shown</span></p>`}<//>`;
}

function Run({ uid, number, isCurrent, isShown, clock }) {
  const last = useAsk(isCurrent ? null : `instances/${uid}/newest?run=${number}&limit=1`, { every: 600_000 }).data?.items[0];
  const says = isCurrent ? "the current one" : last ? (ENDS[last.kind] ?? last.kind) : "";
  return html`<li aria-current=${isShown ? "true" : null}><${Sign} name=${isCurrent ? "running" : last?.kind === "RunFailed" ? "failed" : "done"} size=${16} />
    <p><a href=${to("instance", uid, { run: isCurrent ? null : number })}>run ${number}</a><span class="sub">${says}${last?.data.failure ? `: ${message(last.data.failure) || failed(last.data.failure)}` : ""}${isShown ? "; shown here" : ""}</span></p>
    ${last ? html`<${Time} at=${last.at_ms} now=${clock} />` : html`<span></span>`}</li>`;
}

/** The instance that started this one. */
function Parent({ call }) {
  const [uid] = call.split(".");
  const { data } = useAsk(`instances/${uid}`, { every: 600_000 });
  return html`<a href=${to("instance", uid)}>${data?.id ?? "its parent"}</a>`;
}
