// What stands before dependencies: gates that hold calls back, and activities and queues that somebody
// paused as a whole.
import { html } from "./vendor/html.js";
import { onGate, onKind } from "./acts.js";
import { to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
import { Fresh, useSteady } from "./lists.js";
import { Empty, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Payload } from "./payload.js";
import { Sign } from "./shapes.js";
import { from, Many, many } from "./words.js";

/** The sign of a gate. @type {Record<string, string>} */
const SIGNS = { flowing: "done", shut: "gated", probing: "probing", ramping: "ramping" };

/** Why a gate stands as it does. @param {any} gate */
const why = (gate) =>
  gate.by_hand
    ? `by hand, by ${gate.by_hand.by}${gate.by_hand.reason ? `: “${gate.by_hand.reason}”` : ""}`
    : gate.why;

/** A gate in a line, for the first view. @param {{gate: any, now: number}} props */
export const Line = ({
  gate,
  now,
}) => html`<li data-row tabindex="-1" class=${gate.gone ? "gone" : ""}><${Sign} name=${SIGNS[gate.standing] ?? "gated"} /><p class="say">
  <em>${gate.key}</em> is ${gate.standing}<span class="sub">${why(gate)}; ${many(gate.due, "call waits", "calls wait")} behind it${gate.next_change_ms && gate.next_change_ms > now ? `; it changes ${from(gate.next_change_ms, now)}` : ""}</span></p>
  <${Time} at=${gate.since_ms} now=${now} /><a class="btn" href=${to("gates", null, { key: gate.key })}>Open</a>
    </li>`;

/** @param {{query: URLSearchParams}} props */
export function Gates({ query }) {
  useTitle("Gates");
  const clock = useClock();
  const { data, problem } = useAsk("gates");
  if (!data) return html`<${Wait} problem=${problem} />`;
  const { items, paused } = data;
  const held = items.filter((gate) => gate.standing !== "flowing");
  const kind = query.get("activity") ? "activity" : query.get("queue") ? "queue" : "";
  const name = query.get(kind) ?? "";
  const gate = kind
    ? null
    : (items.find((it) => it.key === query.get("key")) ?? (query.get("key") ? null : (held[0] ?? items[0])));
  const hold = paused.find((it) => it.kind === kind && it.name === name);
  const acts = kind ? onKind(kind, name, hold) : gate ? onGate(gate) : [];
  return html`<div class="lede"><div><${Sentence} held=${held} paused=${paused} all=${items} /></div></div>
    <${Trouble} problem=${problem} />
    <div class="two"><div>
      <${Part} flat title="Gates" says="Those that did not always flow, that somebody set, or behind which calls are due.">
        ${items.length ? html`<${Table} gates=${items} chosen=${gate} clock=${clock} />` : html`<${Empty}>All gates flow. A gate stands here when its dependency fails, and says how many calls wait for it and when it tries again.<//>`}<//>
      <${Part} flat title="Paused as a whole" says="Activities and queues of which no attempt begins until somebody resumes them.">${paused.length ? html`<ul class="needs">${paused.map((it) => html`<li data-row tabindex="-1"><${Sign} name="paused" /><p class="say">${it.kind} <em>${it.name}</em><span class="sub">${it.by}${it.reason ? `: “${it.reason}”` : ""}</span></p><${Time} at=${it.since_ms} now=${clock} /><a class="btn" href=${to("gates", null, { [it.kind]: it.name })}>Decide</a></li>`)}</ul>` : html`<${Empty}>Nothing is paused as a whole.<//>`}<//></div>
      <aside class="stick"><${Deed} key=${gate?.key ?? `${kind}:${name}`} acts=${acts} label="Act on ${gate?.key ?? name}" />
        ${gate && html`<${Part} flat title=${gate.key} says=""><p>${gate.told}</p>
          <${Payload} title="Settings" value=${gate.settings} name="${gate.key}-settings" open />${gate.settings_by && html`<p class="quiet">Stored by ${gate.settings_by}.</p>`}<//>`}</aside></div>`;
}

function Sentence({ held, paused, all }) {
  const [first] = held;
  const waiting = all.reduce((sum, gate) => sum + gate.due, 0);
  if (!first && !paused.length) return html`<h1>Everything flows.</h1>`;
  return html`<h1>${first ? html`<em>${first.key}</em> is <strong class="wait">${first.standing}</strong>${held.length > 1 ? `, and ${many(held.length - 1, "other gate", "other gates")}` : ""}${waiting ? html`; ${many(waiting, "call waits", "calls wait")} and ${waiting === 1 ? "costs" : "cost"} no attempt` : ""}.` : ""} ${paused.length ? html`${Many(paused.length, "kind of calls is", "kinds of calls are")} <strong class="held">paused</strong>.` : ""}</h1>`;
}

function Table({ gates, chosen, clock }) {
  const { rows, changed, show, box } = useSteady(gates, (gate) => gate.key);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} />
    <table class="list plain"><thead><tr><th>Gate</th><th>Stands</th><th>Why</th><th class="num">Due</th>
    <th class="num">Since</th></tr></thead><tbody>${rows.map(
      (gate) => html`<tr data-row tabindex="-1" key=${gate.key} class=${gate.gone ? "gone" : ""} aria-selected=${gate.key === chosen?.key ? "true" : null}>
    <td><a class="id" href=${to("gates", null, { key: gate.key })}>${gate.key}</a></td><td><span class="tag">
      <${Sign} name=${SIGNS[gate.standing] ?? "gated"} size=${16} />${gate.standing}</span></td>
      <td class="quiet wide">${why(gate)}</td>
    <td class="num" data-what="due">${gate.due.toLocaleString("en")}</td><td class="num"><${Time} at=${gate.since_ms} now=${clock} />
      </td></tr>`,
    )}</tbody></table></div>`;
}

/** What has no place in the tabs of a phone. */
export function More() {
  useTitle("More");
  return html`<div class="lede"><div><h1>More</h1></div></div><ul class="needs">
    <li><${Sign} name="failed" /><p class="say"><a href=${to("activities")}>Activities</a>
      <span class="sub">which fail when, and what another policy would have come to</span></p></li>
    <li><${Sign} name="timer" /><p class="say"><a href=${to("schedules")}>Schedules</a>
      <span class="sub">what starts by the clock</span></p></li>
    <li><${Sign} name="running" /><p class="say"><a href=${to("workers")}>Workers</a>
      <span class="sub">who works, and what nobody can run</span></p></li>
    <li><${Sign} name="retrying" /><p class="say"><a href=${to("lab")}>Policy lab</a>
      <span class="sub">what a policy does: explained, drawn, converted</span></p></li></ul>`;
}
