// Activities: which fail when, what decides about each, and what another policy would have come to.
import { html } from "./vendor/html.js";
import { onKind, onPolicy } from "./acts.js";
import { amend, to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
import { Empty, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Payload } from "./payload.js";
import { Caveat, columns, Pressure, usePressure } from "./pressure.js";
import { Sign } from "./shapes.js";
import { many } from "./words.js";
import { WhatIf } from "./whatif.js";

/** How far back, and how many minutes a column is. @type {[string, string, number][]} */
const SPANS = [
  ["1", "the last hour", 1],
  ["6", "the last 6 hours", 5],
  ["24", "the last day", 15],
  ["168", "the last week", 120],
];

/** @param {{query: URLSearchParams}} props */
export function Activities({ query }) {
  useTitle("Activities");
  const clock = useClock();
  const [hours, , step] = SPANS.find(([name]) => name === query.get("hours")) ?? SPANS[0];
  const told = usePressure(Number(hours), step);
  const now = useAsk("now");
  const gates = useAsk("gates").data;
  const policies = useAsk("activities/policies").data?.items ?? [];
  const isOld = told.problem?.status === 404;
  const groups = now.data?.groups ?? [];
  const counted = told.data ? columns(told.data).rows : [];
  const names = [...new Set([...counted.map((row) => row.name), ...groups.map((group) => group.activity), ...policies.map((row) => row.activity), query.get("name")])].filter(Boolean);
  const name = query.get("name") ?? names[0] ?? "";
  const at = Number(query.get("at")) || 0;
  const failing = counted.filter((row) => row.failures > 0);
  const open = groups.filter((group) => group.activity === name);
  const set = policies.find((row) => row.activity === name);
  // Where none is set, an open call says which one the code gave it.
  const example = useAsk(!set && open[0] ? `calls/${open[0].example}` : null, { every: 600_000 }).data?.policy;
  const policy = set?.policy ?? example ?? null;
  if (!now.data) return html`<${Wait} problem=${now.problem} />`;
  const hold = gates?.paused.find((it) => it.kind === "activity" && it.name === name);
  return html`<div class="lede"><div>
      <h1>${failing.length ? html`<em>${failing[0].name}</em> fails the most: <strong>${many(failing[0].failures, "failure")}</strong>${failing.length > 1 ? html`, of ${many(failing.length, "activity", "activities")} that fail` : ""}.` : told.data ? "No attempt has failed in that time." : "Activities"}</h1>
      <p class="under"><label>Counted in <select value=${hours} onChange=${(event) => amend({ hours: event.target.value === "1" ? null : event.target.value, at: null })}>${SPANS.map(([id, says]) => html`<option value=${id} selected=${id === hours}>${says}</option>`)}</select></label><span>times are UTC</span></p></div></div>
    <${Trouble} problem=${isOld ? null : (told.problem ?? now.problem)} />
    <${Part} flat title="Failures by activity and time" says="Higher and stronger is more. A column leads to its calls.">
      ${isOld ? html`<${Empty}>This server does not count how attempts end. What fails now stands under <a href="#/now">Now</a>.<//>` : told.data ? (counted.length ? html`<${Pressure} told=${told.data} most=${60} chosen=${at ? { name, at } : null} hours=${Number(hours)} /><${Caveat} told=${told.data} />` : html`<${Empty}>No attempt has ended in that time. A column stands here for each minute in which attempts failed.<//>`) : html`<p class="quiet" aria-busy="true">Asking the server.</p>`}<//>
    ${
      name &&
      html`<div class="two"><div>
        ${at > 0 && told.data && html`<${Minute} name=${name} at=${at} step=${told.data.step_ms ?? 60_000} told=${told.data} />`}
        <${Part} flat title=${`What if ${name} had another policy`} says="Recorded calls, replayed."><${WhatIf} key=${name + (set?.at_ms ?? "") + (policy !== null)} activity=${name} policy=${policy} query=${query} /><//></div>
      <aside><${Part} flat title=${name} says=${hold ? "paused as a whole" : ""}>
          ${open.length ? html`<ul class="needs members">${open.map((group) => html`<li><${Sign} name=${group.state === "unregistered" ? "nobody" : group.state === "waiting" ? "event" : group.state} size=${16} /><p><a href=${to("instances", null, { activity: name, failure_type: group.failure_type })}>${many(group.count, "call")} ${group.state}</a><span class="sub">${[group.failure_type, group.failure_code, group.message].filter(Boolean).join(" ")}</span></p><${Time} at=${group.since_ms} now=${clock} /></li>`)}</ul>` : html`<p class="quiet">No call of it is open.</p>`}
          ${set ? html`<${Payload} title="Policy that is set" value=${set.policy} name="${name}-policy" open /><p class="quiet">Set by ${set.by}${set.reason ? `: “${set.reason}”` : ""}.</p>` : html`<p class="quiet after">No policy is set: that of the code decides.</p>`}<//>
        <${Deed} key=${name} acts=${[...onKind("activity", name, hold), ...onPolicy(name, set)]} label="Act on ${name}" /></aside></div>`
    }`;
}

/** What a column was counted from, and the way to its calls. */
function Minute({ name, at, step, told }) {
  const items = told.items.filter((item) => item.activity === name && item.at_ms === at);
  const clock = (ms) => new Date(ms).toISOString().slice(11, 16);
  const failed = items.filter((item) => item.failures > 0);
  const started = { from: at, to: at + step };
  return html`<${Part} flat title=${`${name}, ${clock(at)} to ${clock(at + step)}`} says="">
    ${failed.length ? html`<table><thead><tr><th>Failed with</th><th class="num">Failures</th><th class="num spare">Tried again</th><th class="num">Exhausted</th><th>Their calls</th></tr></thead><tbody>${failed.map((item) => html`<tr data-row tabindex="-1"><td>${item.failure_type ?? "a failure"}</td><td class="num">${item.failures}</td><td class="num spare">${item.retries}</td><td class="num">${item.exhausted}</td><td><a href=${to("instances", null, { activity: name, failure_type: item.failure_type })}>open now</a></td></tr>`)}</tbody></table>` : html`<p class="quiet">No attempt failed then.</p>`}
    <p class="acts after"><a class="btn" href=${to("instances", null, { activity: name })}>Open calls of ${name}</a><a class="btn" href=${to("instances", null, started)}>Instances started then</a><a class="btn" href=${to("inbox")}>Inbox</a></p><//>`;
}
