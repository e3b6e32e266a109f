// The policy lab: a policy in the words of any system, explained, linted, drawn and converted. Nothing of it
// is stored; the address holds all of it.
import { html } from "./vendor/html.js";
import { useState } from "./vendor/hooks.mjs";
import { amend } from "./address.js";
import { Band } from "./band.js";
import { Findings, NOT_HERE, parsed, steps, usePolicy } from "./explain.js";
import { Command, Empty, Part, useTitle } from "./parts.js";
import { Payload } from "./payload.js";
import { span } from "./words.js";

/** What is written where, with an example of each. @type {[string, string, string][]} */
const DIALECTS = [
  ["canonical", "Resurgam", '{\n "max_attempts": 8,\n "backoff": {"type": "exponential", "initial": "1s", "multiplier": 2},\n "max_delay": "1m",\n "jitter": {"proportional": 0.5}\n}'],
  ["edda", "Edda", '{\n "max_attempts": 5,\n "initial_interval": 1.0,\n "backoff_coefficient": 2.0,\n "max_interval": 30.0\n}'],
  ["duroxide", "Duroxide", '{\n "max_attempts": 5,\n "backoff": {"type": "Exponential", "base_ms": 1000, "multiplier": 2.0, "max_ms": 30000}\n}'],
  ["rappel_ir", "Rappel, programs", "[Timeout -> retry: 4, backoff: 1s]"],
  ["rappel_py", "Rappel, Python", '{\n "attempts": 5,\n "backoff_seconds": 1.0\n}'],
  ["cadence", "Cadence", '{\n "InitialInterval": 1.0,\n "BackoffCoefficient": 2.0,\n "MaximumInterval": 30.0,\n "MaximumAttempts": 5\n}'],
  ["exosphere", "Exosphere", '{\n "max_retries": 4,\n "strategy": "EXPONENTIAL_FULL_JITTER",\n "backoff_factor": 1000,\n "exponent": 2\n}'],
];

/** @param {{query: URLSearchParams}} props */
export function Lab({ query }) {
  useTitle("Policy lab");
  const from = DIALECTS.find(([id]) => id === query.get("from")) ?? DIALECTS[0];
  const to = DIALECTS.find(([id]) => id === query.get("to")) ?? (from[0] === "canonical" ? DIALECTS[5] : DIALECTS[0]);
  const [text, setText] = useState(() => query.get("text") ?? from[2]);
  const [took, setTook] = useState(() => query.get("took") ?? "0");
  const write = (change) => amend(change);
  const choose = (event) => {
    const next = DIALECTS.find(([id]) => id === event.target.value) ?? DIALECTS[0];
    // An example gives way to an example; what somebody pasted stays.
    const isExample = DIALECTS.some(([, , example]) => example === text);
    if (isExample) setText(next[2]);
    write({ from: next[0] === "canonical" ? null : next[0], text: isExample ? null : text, to: null });
  };
  // Programs have policies in brackets, which are no JSON; everything else is.
  const policy = from[0] === "rappel_ir" && parsed(text) === undefined ? { brackets: text } : parsed(text);
  const asked = policy === undefined ? null : { policy, from: from[0] };
  const body = asked && { ...asked, attempt_time_ms: Math.round(Number(took) * 1_000) || 0 };
  const { told, refused, missing, problem } = usePolicy("explain", body);
  const converted = usePolicy("convert", told && asked ? { ...asked, to: to[0] } : null).told;
  const file = from[0] === "canonical" ? "" : ` --from ${from[0]}`;
  return html`<div class="lede"><div><h1 aria-live="polite">${told ? told.sentence : refused ? html`This is <strong>no policy</strong> that ${from[1]} would take.` : "Paste a policy: what it does stands here."}</h1>
    <p class="under"><span>Nothing is stored; the address holds all of it.</span></p></div></div>
    <div class="two lab-page"><div>
      ${policy === undefined && text.trim() && html`<p class="trouble" role="alert">That is not JSON.</p>`}
      ${missing && html`<${Empty}>${NOT_HERE}<//>`}
      ${problem && html`<p class="trouble" role="alert">${problem.message}</p>`}
      ${refused && html`<${Part} flat title="What is wrong" says=""><${Findings} found=${refused.errors} sign="incomplete" /><//>`}
      ${told && html`<${Explained} told=${told} />`}
      ${converted && html`<${Part} flat title=${`The same for ${to[1]}`} says=""><${Payload} title=${to[1]} value=${converted.config} name=${to[0]} open />
        ${converted.lost.length > 0 && html`<h2 class="cap gap">What it cannot say</h2><ul class="findings">${converted.lost.map((it) => html`<li><p>${it}</p></li>`)}</ul>`}
        ${(converted.notes ?? []).map((it) => html`<p class="quiet">${it}</p>`)}<//>`}
    </div><aside class="stick"><form class="deed" onSubmit=${(event) => event.preventDefault()}>
      <div><div class="field"><label for="from">Written for</label><select id="from" value=${from[0]} onChange=${choose}>${DIALECTS.map(([id, name]) => html`<option value=${id} selected=${id === from[0]}>${name}</option>`)}</select></div>
        <div class="field"><label for="policy">Policy</label><textarea id="policy" rows="12" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)} onChange=${() => write({ text })}></textarea></div>
        <div class="field"><label for="took">How long an attempt takes, in seconds</label><input id="took" type="text" inputmode="decimal" value=${took} onInput=${(event) => setTook(event.target.value)} onChange=${() => write({ took: took === "0" ? null : took })} /></div>
        <div class="field"><label for="into">Convert it for</label><select id="into" value=${to[0]} onChange=${(event) => write({ to: event.target.value, text })}>${DIALECTS.map(([id, name]) => html`<option value=${id} selected=${id === to[0]}>${name}</option>`)}</select></div></div>
      <${Command} line=${`resurgam policy explain policy.json${file}${Number(took) ? ` --attempt-time ${took}s` : ""}`} /><${Command} line=${`resurgam policy convert policy.json${file} --to ${to[0]}`} /></form></aside></div>`;
}

function Explained({ told }) {
  return html`${told.schedules.map((schedule, i) => html`<${Part} key=${i} flat title=${told.schedules.length > 1 ? `For ${schedule.title}` : "Delays"} says=${told.schedules.length > 1 ? schedule.sentence : "The range that each is drawn from, and the middle of it."}>
      <${Band} delays=${steps({ schedules: [schedule] })} attempts=${[]} failures=${0} max=${schedule.max_attempts} />
      ${schedule.longest_outage_ms && html`<p class="after">It bridges an outage of <b>${span(schedule.longest_outage_ms.p50)}</b>, of at least ${span(schedule.longest_outage_ms.min)}.</p>`}
      <details class="pay"><summary>As a table</summary><table><thead><tr><th class="num">Attempt</th><th class="num">Delay</th><th class="num">Begins after</th><th class="num">Reached</th></tr></thead><tbody>${schedule.attempts.map((it) => html`<tr><td class="num">${it.attempt}</td><td class="num">${range(it.delay_ms)}</td><td class="num">${range(it.start_ms)}</td><td class="num">${Math.round(it.reached * 100)} %</td></tr>`)}</tbody></table></details><//>`)}
    ${told.rules.length > 0 && html`<${Part} flat title="Rules" says=""><ul class="findings">${told.rules.map((rule) => html`<li><p>${typeof rule === "string" ? rule : (rule.sentence ?? rule.says ?? JSON.stringify(rule))}</p></li>`)}</ul><//>`}
    <${Part} flat title="Lints" says="">${told.lints.length ? html`<${Findings} found=${told.lints} sign="failed" />` : html`<p class="quiet">Nothing in it looks unintended.</p>`}${told.notes.map((it) => html`<p class="quiet">${it}</p>`)}<//>`;
}

const range = (of) => (of.min === of.max ? span(of.min) : `${span(of.min)} to ${span(of.max)}`);
