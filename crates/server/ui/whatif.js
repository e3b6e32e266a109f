// What if: the calls of an activity that were recorded, under another policy beside what happened.
import { html } from "./vendor/html.js";
import { useMemo, useState } from "./vendor/hooks.mjs";
import { amend, to } from "./address.js";
import { Findings, usePolicy } from "./explain.js";
import { Command, useWidth } from "./parts.js";
import { line, path, text } from "./shapes.js";
import { many, span, word } from "./words.js";

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** How long a time of a policy is, in milliseconds: `1m 30s`, or a number of them. @param {any} told */
export function millis(told) {
  if (typeof told === "number") return told;
  const parts = [...String(told ?? "").matchAll(/([\d.]+)\s*(ms|s|m|h|d)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

/** A time as policies write it. @param {number} ms */
const written = (ms) => (ms % 1_000 ? `${Math.round(ms)}ms` : ms % 60_000 ? `${ms / 1_000}s` : ms % 3_600_000 ? `${ms / 60_000}m` : `${ms / 3_600_000}h`);

/** Steps of times, so that one slider reaches from milliseconds to hours. */
const TIMES = [100, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000];
const nearest = (ms) => TIMES.reduce((best, it, i) => (Math.abs(Math.log(it / ms)) < Math.abs(Math.log(TIMES[best] / ms)) ? i : best), 0);

/**
 * What can be moved. Each reads a number out of a policy, and writes it into one.
 * @type {{id: string, label: string, most: number, step: number, least: number, read: (policy: any) => number, write: (policy: any, value: number) => any, says: (value: number) => string}[]}
 */
const KNOBS = [
  {
    id: "initial",
    label: "First delay",
    least: 0,
    most: TIMES.length - 1,
    step: 1,
    read: (policy) => nearest(millis(policy.backoff?.initial ?? policy.backoff?.delay) || 1_000),
    write: (policy, i) => ({ ...policy, backoff: { ...(policy.backoff?.type === "exponential" ? policy.backoff : { type: "exponential", multiplier: 2 }), initial: written(TIMES[i]) } }),
    says: (i) => span(TIMES[i]),
  },
  {
    id: "multiplier",
    label: "Times",
    least: 1,
    most: 5,
    step: 0.1,
    read: (policy) => policy.backoff?.multiplier ?? 2,
    write: (policy, value) => ({ ...policy, backoff: { type: "exponential", initial: written(millis(policy.backoff?.initial) || 1_000), ...policy.backoff, multiplier: Math.round(value * 10) / 10 } }),
    says: (value) => String(Math.round(value * 10) / 10),
  },
  {
    id: "max-delay",
    label: "Longest delay",
    least: 0,
    most: TIMES.length - 1,
    step: 1,
    read: (policy) => nearest(millis(policy.max_delay) || 60_000),
    write: (policy, i) => ({ ...policy, max_delay: written(TIMES[i]) }),
    says: (i) => span(TIMES[i]),
  },
  {
    id: "attempts",
    label: "Attempts",
    least: 1,
    most: 50,
    step: 1,
    read: (policy) => policy.max_attempts ?? 50,
    write: (policy, value) => ({ ...policy, max_attempts: value }),
    says: (value) => String(value),
  },
];

/**
 * @param {{activity: string, policy: any, query: URLSearchParams}} props `policy` is what decides now, where that is known
 */
export function WhatIf({ activity, policy, query }) {
  const start = policy ?? { max_attempts: 5, backoff: { type: "exponential", initial: "1s", multiplier: 2 }, max_delay: "1m" };
  const given = query.get("policy");
  const [text_, setText] = useState(() => given ?? JSON.stringify(start));
  const parsed = useMemo(() => {
    try {
      return JSON.parse(text_);
    } catch {
      return null;
    }
  }, [text_]);
  const change = (next) => {
    setText(next);
    amend({ policy: next === JSON.stringify(start) ? null : next });
  };
  const since = query.get("hours") ?? "24";
  const body = parsed && { policy: parsed, activity, since_ms: Number(since) * 3_600_000 };
  const { told, refused, missing, problem } = usePolicy("what-if", body);
  const line_ = `resurgam policy what-if policy.json --activity ${word(activity)} --since ${since}h`;
  return html`<div class="lab"><div>
      ${KNOBS.map((knob) => html`<${Knob} key=${knob.id} knob=${knob} policy=${parsed ?? start} before=${start} change=${(value) => change(JSON.stringify(knob.write(parsed ?? start, value)))} />`)}
      <div class="field"><label for="whatif">The same as text</label>
        <textarea id="whatif" rows="6" spellcheck=${false} value=${pretty(text_)} onChange=${(event) => change(compact(event.target.value))}></textarea></div>
      ${!parsed && html`<p class="trouble" role="alert">That is not JSON.</p>`}
      ${refused && html`<${Findings} found=${refused.errors} sign="incomplete" />`}
      <p class="acts after"><a class="btn" href=${to("lab", null, { text: text_ })}>Open in the lab</a></p></div>
    <div aria-live="polite">${
      missing
        ? html`<p class="say empty">This server does not replay recorded calls yet. The command line does, on the same database:</p>`
        : problem
          ? html`<p class="trouble" role="alert">${problem.message}</p>`
          : told
            ? html`<${Compared} told=${told} />`
            : html`<p class="quiet">Asking the server.</p>`
    }<${Command} line=${line_} /></div></div>`;
}

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return text;
  }
};
const compact = (text) => {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
};

function Knob({ knob, policy, before, change }) {
  const [now, was] = [knob.read(policy), knob.read(before)];
  const id = `knob-${knob.id}`;
  return html`<div class="knob"><label for=${id}>${knob.label}</label>
    <output for=${id}>${now !== was && html`<s>${knob.says(was)}</s> `}${knob.says(now)}</output>
    <input type="range" id=${id} min=${knob.least} max=${knob.most} step=${knob.step} value=${now} aria-valuetext=${knob.says(now)} onInput=${(event) => change(Number(event.target.value))} /></div>`;
}

const number = (value) => value.toLocaleString("en");

/** @type {[string, (sums: any) => string][]} */
const ROWS = [
  ["attempts", (sums) => number(sums.attempts)],
  ["calls that succeed", (sums) => number(sums.succeeded)],
  ["calls that fail", (sums) => number(sums.failed)],
  ["calls that go on", (sums) => number(sums.open)],
  ["until success, half of them within", (sums) => (sums.succeeded ? span(sums.success_p50_ms) : "never")],
  ["19 of 20 within", (sums) => (sums.succeeded ? span(sums.success_p95_ms) : "never")],
  ["the longest", (sums) => (sums.succeeded ? span(sums.success_max_ms) : "never")],
  ["attempts in the busiest minute", (sums) => number(sums.busiest_minute)],
];

function Compared({ told }) {
  const { recorded, what_if: would } = told;
  const [saved, cost] = [would.succeeded - recorded.succeeded, would.attempts - recorded.attempts];
  if (!told.calls) return html`<p class="say empty">No call of ${told.activity} is recorded in that time.</p>`;
  return html`<p class="say">Of ${many(told.calls, "recorded call")} <strong>${saved === 0 ? "as many" : number(Math.abs(saved))} ${saved > 0 ? "more" : saved < 0 ? "fewer" : ""} would have succeeded</strong>, with ${cost === 0 ? "as many attempts" : `${many(Math.abs(cost), "attempt")} ${cost > 0 ? "more" : "fewer"}`}.</p>
    <table class="gap"><thead><tr><th><span class="sr">What</span></th><th class="num">as recorded</th><th class="num">what if</th></tr></thead>
    <tbody>${ROWS.map(([what, of]) => html`<tr><td>${what}</td><td class="num quiet">${of(recorded)}</td><td class="num"><b>${of(would)}</b></td></tr>`)}</tbody></table>
    <${Load} was=${recorded.per_minute} is=${would.per_minute} />
    <p class="quiet after">Assumed: ${told.assumed.join("; ")}.</p>`;
}

/** Attempts that begin, by minute: hatched as recorded, a line as they would. */
function Load({ was, is }) {
  const [box, W] = useWidth();
  const minutes = [...Object.keys(was), ...Object.keys(is)].map(Number);
  const [first, last] = [Math.min(...minutes), Math.max(...minutes)];
  const wide = Math.max(1, Math.ceil((last - first + 1) / 240));
  const sums = (of) => {
    const bins = new Array(Math.floor((last - first) / wide) + 1).fill(0);
    for (const [minute, count] of Object.entries(of)) bins[Math.floor((Number(minute) - first) / wide)] += count;
    return bins;
  };
  if (!minutes.length) return null;
  const [a, b] = [sums(was), sums(is)];
  const [H, top] = [130, Math.max(...a, ...b, 1)];
  const [X, Y] = [(i) => (i / a.length) * W, (v) => H - 20 - (v / top) * (H - 36)];
  const stair = (bins) => bins.map((v, i) => `V${Y(v)}H${X(i + 1)}`).join("");
  const clock = (minute) => new Date(minute * 60_000).toISOString().slice(11, 16);
  return html`<h2 class="cap gap">Attempts that begin, by ${wide === 1 ? "minute" : `${wide} minutes`}</h2><div ref=${box} class="chart">${
    W > 0 &&
    html`<svg width=${W} height=${H} viewBox="0 0 ${W} ${H}" role="img" aria-label="Attempts by minute: at most ${Math.max(...a)} as recorded, ${Math.max(...b)} what if">
    ${path(`M0 ${H - 20}${stair(a)}V${H - 20}z`, "f-wait")}${path(`M0 ${Y(b[0])}${stair(b)}`, "l-fail l-15")}${line(0, H - 19.5, W, H - 19.5, "l-rule2 l-1")}
    ${text(0, H - 5, clock(first), "t-q")}${text(W, H - 5, clock(last), "t-q", "end")}${text(0, 12, `at most ${top}`, "t-q")}</svg>`
  }</div><div class="key"><span><svg width="22" height="14" aria-hidden="true"><rect y="1" width="22" height="13" class="f-wait" /></svg>as recorded</span>
    <span><svg width="22" height="14" aria-hidden="true">${path("M0 11H11V4H22", "l-fail l-15")}</svg>what if</span></div>`;
}
