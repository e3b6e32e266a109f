// The first view: what goes on, what needs a person, what waits and why. It begins with one sentence.
import { html } from "./vendor/html.js";
import { useState } from "./vendor/hooks.mjs";
import { to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Changed } from "./changed.js";
import { Line } from "./gates.js";
import { Fresh, useSteady } from "./lists.js";
import { copied, Empty, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { columns, Pressure, usePressure } from "./pressure.js";
import { Sign } from "./shapes.js";
import { from, Many, many, moment, near, soon } from "./words.js";

/** @typedef {{sign: string, says: any, sub: string, at: number | null, href: string, verb: string, text: string}} Need */

/** What a group of calls fails with. @param {any} group */
const kind = (group) => [group.failure_type, group.failure_code].filter(Boolean).join(" ") || "a failure";

/**
 * What nothing mends but a person, the newest first.
 * @returns {Need[]}
 */
function needs({ paused, letters, blocked, stopped, now, nodes }) {
  /** @type {Need[]} */
  const found = [];
  const add = (sign, says, sub, at, href, verb, text) => found.push({ sign, says, sub, at, href, verb, text });
  for (const group of paused)
    add(
      "paused",
      html`${many(group.count, "call")} of <em>${group.activity}</em> ${group.count === 1 ? "is" : "are"} paused`,
      group.error,
      group.newest_ms,
      to("inbox", null, { kind: "paused", group: group.fingerprint }),
      `Decide for ${group.count}`,
      `${group.count} calls of ${group.activity} are paused: ${group.error}`,
    );
  for (const group of letters)
    add(
      "dead",
      html`${many(group.count, "dead letter")} of <em>${group.activity}</em>`,
      group.error,
      group.newest_ms,
      to("inbox", null, { kind: "dead", group: group.fingerprint }),
      `Decide for ${group.count}`,
      `${group.count} dead letters of ${group.activity}: ${group.error}`,
    );
  for (const row of blocked)
    add(
      "blocked",
      html`<em>${row.id}</em> is blocked: its code does not fit`,
      row.error ?? row.workflow,
      row.created_at_ms,
      to("instance", row.uid),
      "Open",
      `${row.id} is blocked: ${row.error ?? ""}`,
    );
  for (const row of stopped)
    add(
      "paused",
      html`<em>${row.id}</em> is paused${row.paused?.by ? ` by ${row.paused.by}` : ""}`,
      row.paused?.reason ?? row.workflow,
      row.paused?.since_ms ?? row.created_at_ms,
      to("instance", row.uid),
      "Open",
      `${row.id} is paused: ${row.paused?.reason ?? ""}`,
    );
  for (const group of now.groups.filter((it) => it.state === "unregistered"))
    add(
      "nobody",
      html`Nobody who works knows <em>${group.activity}</em>: ${many(group.count, "call waits", "calls wait")}`,
      `queue ${group.queue}`,
      group.since_ms,
      to("call", group.example),
      "Open the first",
      `nobody knows ${group.activity}: ${group.count} calls wait`,
    );
  if (nodes && !nodes.length)
    add(
      "nobody",
      html`Nobody works on this database`,
      "What is asked for is stored, and carried out as soon as somebody works.",
      null,
      to("workers"),
      "See workers",
      "nobody works on this database",
    );
  return found.sort((a, b) => (b.at ?? Infinity) - (a.at ?? Infinity));
}

/** The page in one sentence: what fails the most and what waits for it, or what needs a person first. */
function Sentence({ list, trying, paused }) {
  const [worst] = trying;
  const [held] = [...paused].sort((a, b) => b.count - a.count);
  const people = list.length
    ? html`${Many(list.length, "thing needs", "things need")} a person`
    : "Nothing needs a person";
  if (worst && (!held || worst.count >= held.count))
    return html`<h1>${people}. <em>${worst.activity}</em> fails with <strong>${kind(worst)}</strong>, and ${many(worst.count, "call waits", "calls wait")} for <strong class="wait">another attempt</strong>.</h1>`;
  if (held)
    return html`<h1>${people}. ${many(held.count, "call")} of <em>${held.activity}</em> ${held.count === 1 ? "is" : "are"} <strong class="held">paused</strong>: <strong>${held.error}</strong>.</h1>`;
  return html`<h1>${people}. ${list.length ? "" : "No call has failed that is still open."}</h1>`;
}

export function Now() {
  useTitle("Now");
  const clock = useClock();
  const { data: now, problem } = useAsk("now");
  const paused = useAsk("paused?group=fingerprint").data?.items ?? [];
  const letters = useAsk("dead-letters?group=fingerprint").data?.items ?? [];
  const blocked = useAsk("instances?status=blocked&limit=20").data?.items ?? [];
  const stopped = useAsk("instances?status=paused&limit=20").data?.items ?? [];
  const nodes = useAsk("nodes").data?.items ?? null;
  const gates = useAsk("gates").data ?? { items: [], paused: [] };
  const pressure = usePressure(1, 1);
  if (!now) return html`<${Wait} problem=${problem} />`;
  const list = needs({ paused, letters, blocked, stopped, now, nodes });
  const trying = now.groups.filter(
    (group) => group.state === "retrying" || (group.failure_type && group.state === "running"),
  );
  const held = gates.items.filter((gate) => gate.standing !== "flowing");
  const rest = now.groups.filter(
    (group) => !trying.includes(group) && group.state !== "unregistered" && group.state !== "paused",
  );
  return html`<div class="lede"><div><${Sentence} list=${list} trying=${trying} paused=${paused} />
      <p class="under"><span><b>${moment(clock)}</b>
        </span>${nodes && html`<span>${nodes.length > 1 ? `${nodes.length} nodes work` : nodes.length ? `${nodes[0].program} works` : "nobody works"}</span>`}
      ${!now.is_all && html`<span>${many(now.looked_at, "open call")} looked at; there are more</span>`}</p></div>
      <div class="acts"><${Summary} list=${list} trying=${trying} held=${held} at=${clock} /></div></div>
    <${Trouble} problem=${problem} />
    <${Part} title="Needs a person" says="Nothing in this list mends itself. The newest stands first.">
      ${
        list.length
          ? html`<${Needs} list=${list} clock=${clock} />`
          : html`<${Empty}>You would be woken for a blocked or paused run, calls out of attempts, dead letters, and activities that nobody knows.<//>`
      }
    <//>
    <${Part} title="Retrying" says="Calls that have failed, by what they failed with. Their policies deal with them.">
      ${trying.length ? html`<${Incidents} groups=${trying} now=${clock} successes=${successes(pressure.data)} />` : html`<${Empty}>No call waits for another attempt. Here would stand what fails, since when, and when the next attempt begins.<//>`}
    <//>
    ${
      (held.length > 0 || gates.paused.length > 0) &&
      html`<${Part} title="Held back" says="Calls that wait here cost no attempt.">
      <${HeldBack} gates=${held} paused=${gates.paused} clock=${clock} /><//>`
    }
    <${Felt} data=${pressure.data} problem=${pressure.problem} />
    <${Part} title="What changed" says="Actions, processes, policies and gates of the last day. Most incidents begin with one."><${Changed} nodes=${nodes} gates=${gates.items} clock=${clock} /><//>
    <${Part} title="Under way" says="Open calls without a failure.">
      ${
        rest.length
          ? html`<${UnderWay} groups=${rest} clock=${clock} />`
          : html`<${Empty}>${now.groups.length ? "No other call" : "No call"} runs or waits at this moment. <a href=${to("instances")}>See what was started.</a>
            <//>`
      }
    <//>`;
}

/** Failures of the last hour by activity and minute. */
function Felt({ data, problem }) {
  const rows = data ? columns(data).rows.filter((row) => row.failures > 0) : [];
  const failing = data && { ...data, items: data.items.filter((item) => rows.some((row) => row.name === item.activity)) };
  return html`<${Part} title="Pressure" says="Failures of the last hour, by activity and minute. A column leads to its calls.">${
    rows.length
      ? html`<${Pressure} told=${failing} most=${10} />`
      : html`<${Empty}>${data ? "No attempt has failed in the last hour." : problem?.status === 404 ? "This server does not count how attempts end." : (problem?.message ?? "Asking the server.")}<//>`
  }<//>`;
}

function Needs({ list, clock }) {
  const { rows, changed, show, box } = useSteady(list, (need) => need.href + need.sign);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} /><ul class="needs">${rows.map((need, i) => html`<li data-row tabindex="-1" key=${need.href + need.sign} class=${need.gone ? "gone" : ""}>
    <${Sign} name=${need.sign} /><p class="say">${need.says}<span class="sub">${need.gone ? "is no more" : need.sub}</span></p>
    <${Time} at=${need.at} now=${clock} /><a class=${i ? "btn" : "btn primary"} href=${need.href}>${need.verb}</a></li>`)}</ul></div>`;
}

function HeldBack({ gates, paused, clock }) {
  const items = [...gates.map((gate) => ({ ...gate, kind: "gate", name: gate.key })), ...paused];
  const { rows, changed, show, box } = useSteady(items, (it) => it.kind + it.name);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} /><ul class="needs">${rows.map((it) =>
    it.kind === "gate"
      ? html`<${Line} key=${it.kind + it.name} gate=${it} now=${clock} />`
      : html`<li data-row tabindex="-1" key=${it.kind + it.name} class=${it.gone ? "gone" : ""}><${Sign} name="paused" />
        <p class="say">${it.kind} <em>${it.name}</em> is paused as a whole<span class="sub">${it.by}${it.reason ? `: “${it.reason}”` : ""}</span></p>
        <${Time} at=${it.since_ms} now=${clock} /><a class="btn" href=${to("gates", null, { [it.kind]: it.name })}>Decide</a></li>`,
  )}</ul></div>`;
}

const same = (group) => [group.activity, group.failure_type, group.failure_code, group.state, group.queue].join(" ");

function UnderWay({ groups, clock }) {
  const { rows, changed, show, box } = useSteady(groups, same);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} />
    <table class="list plain"><thead><tr><th>Activity</th><th>Queue</th><th>Stands</th>
      <th class="num">Calls</th><th class="num">The first</th></tr></thead>
    <tbody>${rows.map((group) => html`<tr key=${same(group)} class=${group.gone ? "gone" : ""}><td><a href=${to("call", group.example)}>${group.activity}</a></td>
      <td class="quiet">${group.queue}</td><td><span class="tag">
      <${Sign} name=${group.state === "running" ? "running" : "event"} size=${15} />${group.gone ? "none now" : group.state}</span></td>
      <td class="num" data-what="calls">${group.gone ? "–" : group.count.toLocaleString("en")}</td><td class="num">
      <${Time} at=${group.since_ms} now=${clock} /></td></tr>`)}</tbody></table></div>`;
}

/** The minute in which an attempt of each activity succeeded last, as far as that is counted. @param {any} told */
function successes(told) {
  const last = new Map();
  for (const item of told?.items ?? []) if (item.successes > 0) last.set(item.activity, item.at_ms);
  return { last, isKnown: !!told };
}

/** When an activity succeeded last, in words. */
function success({ last, isKnown }, activity, now) {
  const at = last.get(activity);
  if (at) return `; the last success was at ${near(at, now).slice(0, -3)} UTC`;
  return isKnown ? "; no success in the last hour" : "";
}

function Incidents({ groups, now, successes }) {
  const { rows, changed, show, box } = useSteady(groups, same);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} /><ul class="needs">${rows.map(
    (group) => html`<li data-row tabindex="-1" key=${same(group)} class=${group.gone ? "gone" : ""}><${Sign} name=${group.state} />
    <p class="say">
      <em>${group.activity}</em>: ${kind(group)}, ${group.gone ? "none now" : many(group.count, "call")}<span class="sub">${group.message ?? ""}</span>
    <span class="sub">the first was made ${from(group.since_ms, now)}${group.next_due_ms ? `; the next attempt ${group.next_due_ms > now ? `begins in ${soon(group.next_due_ms - now)}` : "is due"}` : ""}${success(successes, group.activity, now)}</span></p>
    <span class="also"><a href=${to("call", group.example)}>the first call</a>
      <a href=${to("instances", null, { retrying: true, activity: group.activity, do: "retry" })}>retry all now</a>
      <a href=${to("gates", null, { activity: group.activity })}>hold all back</a></span>
    <a class="btn" href=${to("instances", null, { retrying: true, activity: group.activity })}>See ${group.count}</a>
      </li>`,
  )}</ul></div>`;
}

function Summary({ list, trying, held, at }) {
  const [done, set] = useState(false);
  const text = () =>
    [
      `Resurgam, ${moment(at)}: ${location.href}`,
      ...list.map((need) => `- ${need.text}`),
      ...trying.map(
        (group) =>
          `- ${group.count} calls of ${group.activity} retry: ${kind(group)} (${group.message ?? ""}); the first was made at ${moment(group.since_ms)}${group.next_due_ms ? `, the next attempt is due at ${moment(group.next_due_ms)}` : ""}`,
      ),
      ...held.map((gate) => `- gate ${gate.key} is ${gate.standing}, and ${gate.due} calls wait behind it`),
      ...(list.length || trying.length || held.length ? [] : ["- nothing fails, and nothing needs a person"]),
    ].join("\n");
  return html`<button type="button" onBlur=${() => set(false)} onClick=${async () => {
    await copied(text());
    set(true);
  }}>${done ? "Copied" : "Copy summary as text"}</button>`;
}
