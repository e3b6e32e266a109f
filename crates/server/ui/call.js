// One activity call: what decides about it as a curve, its attempts with the reason for each wait, what is
// left of its budget, and what can be done about it.
import { html } from "./vendor/html.js";
import { onCall } from "./acts.js";
import { to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Band } from "./band.js";
import { Deed } from "./deed.js";
import { Command, Empty, Id, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Payload } from "./payload.js";
import { disc, line, path, rect, Share, Sign, Stair } from "./shapes.js";
import { begin, called, clock as hours, failed, from, many, message, sign, span, waits, word } from "./words.js";

/** @param {{name: string}} props */
export function Call({ name }) {
  const clock = useClock();
  const { data: call, problem } = useAsk(`calls/${encodeURIComponent(name)}`);
  const isOpen = !!call?.pending;
  const delays = useAsk(isOpen ? `calls/${encodeURIComponent(name)}/delays` : null, { every: 15_000 }).data;
  const label = call ? called({ activity: call.activity, call: call.call }) : "Call";
  useTitle(call ? `${label} of ${call.instance}` : "Call");
  if (!call) return html`<${Wait} problem=${problem} />`;
  const { pending } = call;
  const acts = pending ? onCall(pending, call.instance, clock, call.policy) : [];
  return html`<div class="lede"><div>
      <p class="crumb"><${Id} id=${call.instance} href=${to("instance", call.call.split(".")[0])} /><span class="tag">
        <${Sign} name=${pending ? sign(pending) : call.state === "completed" ? "done" : "exhausted"} size=${16} />
        <span class="id">${label}</span></span>
        ${pending && html`<span>queue ${pending.queue}</span>
          <a href=${to("gates", null, { key: pending.gate })}>gate ${pending.gate}</a>`}<span>
          <${Id} id=${call.call} title="the name of the call" /></span></p>
      <${Sentence} call=${call} clock=${clock} delays=${delays} /></div>
      ${
        acts.length > 0 &&
        html`<div class="acts"><a class="btn" href="#act" onClick=${(event) => {
          event.preventDefault();
          document.getElementById("act")?.scrollIntoView();
          document.getElementById("why")?.focus();
        }}>Act</a></div>`
      }</div>
    <${Trouble} problem=${problem} />
    <div class="two"><div>
      ${delays && delays.delays.length > 0 && html`<${Part} flat title="Delays" says="What the policy allows after each failure, and what was drawn."><${Band} delays=${delays} attempts=${call.attempts} failures=${pending?.failures ?? 0} max=${pending?.max_attempts ?? null} /><${Legend} /><//>`}
      <${Part} flat title="Attempts" says="Each that did not succeed says why the wait after it was that long.">
        <${Attempts} call=${call} clock=${clock} /><//>
    </div><aside class="stick">
      ${pending && html`<${Budget} call=${pending} policy=${call.policy} clock=${clock} />`}
      <${Deed} acts=${acts} label="Act on ${label}" />
      <${Part} flat title="Payloads" says="">
        <${Payload} title="Input" value=${call.input} name="${call.call}-input" open />
        <${Payload} title="Result" value=${call.result} name="${call.call}-result" open />
          <${Payload} title="Failure" value=${call.failure ?? pending?.last?.failure} name="${call.call}-failure" />
        <${Payload} title="Heartbeat" value=${pending?.heartbeat?.details} name="${call.call}-heartbeat" />
          <${Payload} title="Policy" value=${call.policy} name="${call.activity}-policy" /><//>
      ${call.actions.length > 0 && html`<${Part} flat title="What people did" says="">
        <ol class="hist">${[...call.actions].reverse().map((row) => html`<li class="deedrow">
        <${Sign} name="operator" size=${15} />
        <span class="op">${row.by}: ${row.action}${row.reason ? ` (“${row.reason}”)` : ""}; ${row.answer} <${Time} at=${row.at_ms} now=${clock} /></span></li>`)}</ol><//>`}
      <${Part} flat title="On the command line" says="">
        <${Command} line=${`resurgam attempts ${word(call.instance)}`} /><//>
    </aside></div>`;
}

function Sentence({ call, clock, delays }) {
  const { pending, attempts } = call;
  if (!pending) {
    if (call.state === "completed")
      return html`<h1>Has <strong class="rose">completed</strong>${attempts.length ? ` after ${many(attempts.length, "attempt")} that did not succeed` : " at the first attempt"}.</h1>`;
    return html`<h1>Has <strong>${call.state}</strong>${call.failure ? `: ${message(call.failure) || failed(call.failure)}` : ""}.</h1>`;
  }
  const left = pending.max_attempts ? pending.max_attempts - pending.failures : null;
  const end =
    left !== null && delays?.ends_by === "max_attempts" && !pending.paused
      ? html` ${left === 1 ? "The next failure is the last." : `${left} failures are left.`}`
      : "";
  return html`<h1>${begin(waits(pending, clock), call.activity)}.${end}</h1>`;
}

const Legend = () => html`<div class="key">
  <span><svg width="22" height="14" aria-hidden="true">${rect(0, 1, 22, 12, "f-wait")}${line(0, 1, 22, 1, "l-wait l-1")}${line(0, 13, 22, 13, "l-wait l-1")}</svg>range it was drawn from</span>
  <span><svg width="22" height="14" aria-hidden="true">${path("M0 11H11V4H22", "l-ink l-15")}</svg>the middle of it</span>
  <span><svg width="14" height="14" aria-hidden="true">${disc(7, 7, 5.5, "f-fail")}</svg>drawn</span>
  <span><svg width="14" height="14" aria-hidden="true">${path("M7 0l7 7-7 7-7-7z", "f-fail")}</svg>asked for by who failed</span>
  <span><svg width="22" height="14" aria-hidden="true">
    <rect x="1" y="1" width="20" height="12" class="l-wait l-1 dash" /></svg>not reached yet</span></div>`;

function Budget({ call, policy, clock }) {
  const { failures, max_attempts: max } = call;
  const elapsed = policy?.max_elapsed ?? null;
  return html`<${Part} flat title="Budget" says=""><div class="budget"><div>
    <p class="big">${max ? `${Math.max(0, max - failures)} of ${many(max, "failure")} left` : `${many(failures, "failure")}, no limit`}</p>
    <${Stair} failed=${failures} max=${max} state=${sign(call)} w=${188} h=${44} /></div>
    ${
      call.deadline_ms
        ? html`<div><p class="big">${call.deadline_ms > clock ? `${span(call.deadline_ms - clock)} left` : "its time is up"}</p><p>${hours(call.deadline_ms)} UTC is the end of its time</p></div>`
        : elapsed
          ? html`<div><p class="big">at most ${typeof elapsed === "number" ? span(elapsed) : elapsed}</p>
            <p>from the first attempt on</p></div>`
          : ""
    }</div>
    ${call.lost || call.snoozed || call.interrupted ? html`<p class="quiet">Not counted: ${[call.lost && many(call.lost, "lost attempt"), call.snoozed && many(call.snoozed, "snooze"), call.interrupted && many(call.interrupted, "interruption")].filter(Boolean).join(", ")}.</p>` : ""}<//>`;
}

function Attempts({ call, clock }) {
  const { attempts, pending } = call;
  if (!attempts.length && !pending) return html`<${Empty}>It succeeded at the first attempt.<//>`;
  const first = attempts[0]?.started_at_ms ?? pending?.started_at_ms;
  return html`<table class="tries"><thead><tr><th><span class="sr">How it ended</span></th><th>Began</th>
    <th class="num">Took</th><th>Failure</th><th>Why that wait</th></tr></thead><tbody>
    ${
      pending &&
      html`<tr data-row tabindex="-1"><td><${Sign} name=${sign(pending)} /></td>
        <td>${pending.running ? html`<${Time} at=${pending.started_at_ms} now=${clock} />` : pending.next_due_ms ? hours(pending.next_due_ms) : "–"}</td>
      <td class="num">${pending.running ? span(clock - pending.started_at_ms) : pending.next_due_ms && pending.next_due_ms > clock ? from(pending.next_due_ms, clock) : "–"}</td><td class="what quiet">attempt ${pending.running ? pending.attempt : pending.attempt + 1}</td><td class="why">${pending.running ? "runs" : pending.paused ? "paused" : "begins at its original due time, also after a crash"}</td></tr>`
    }
    ${[...attempts].reverse().map(
      (
        row,
      ) => html`<tr data-row tabindex="-1"><td><${Sign} name=${row.outcome === "failed" ? "failed" : "lost"} /></td>
        <td title=${row.started_at}>${row.started_at_ms === first ? hours(first) : `+${span(row.started_at_ms - first)}`}</td><td class="num">${span(row.ended_at_ms - row.started_at_ms)}</td>
      <td class="what">
        <b>${row.attempt}</b> ${row.failure ? html`${failed(row.failure)}: ${message(row.failure)}${causes(row.failure)}` : row.outcome}</td><td class="why">${row.why}</td></tr>`,
    )}</tbody></table>`;
}

/** The chain of causes, one under the other. @param {any} failure */
function causes(failure) {
  const chain = [];
  for (let cause = failure.cause; cause && chain.length < 10; cause = cause.cause)
    chain.push(html`<span class="cause">${failed(cause)}: ${message(cause)}</span>`);
  return chain;
}
