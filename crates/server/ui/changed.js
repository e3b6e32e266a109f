// What changed: what people and programs did lately, who works since when, and what decides since when. Most
// incidents begin with one of these.
import { html } from "./vendor/html.js";
import { useState } from "./vendor/hooks.mjs";
import { to } from "./address.js";
import { ask, useAsk } from "./api.js";
import { Fresh, useSteady } from "./lists.js";
import { Empty, Time, Trouble } from "./parts.js";
import { Sign } from "./shapes.js";

/** How far back, in milliseconds. */
const LATELY = 24 * 3_600_000;
const FIRST = 12;

/** @typedef {{at: number, key: string, sign: string, says: any, sub: string, href: string}} Change */

/** What an action was done to, and where that is. @param {any} row */
function subject(row) {
  if (row.call) return { name: `${row.instance ?? row.uid} #${row.call.split(".").pop()}`, href: to("call", row.call) };
  if (row.uid) return { name: row.instance ?? row.uid, href: row.instance ? to("instance", row.uid) : "" };
  const of = row.subject ?? "";
  if (row.action === "gate") return { name: of, href: to("gates", null, { key: of }) };
  if (row.action === "schedule") return { name: of, href: to("schedules", null, { id: of }) };
  if (row.action === "policy" || row.action === "hold") return { name: of, href: to("activities", null, { name: of.replace(/^activity[ :]/, "") }) };
  return { name: of, href: "" };
}

/** @param {any} row @returns {Change} */
function ofAction(row) {
  const { name, href } = subject(row);
  return {
    at: row.at_ms,
    key: `a${row.at_ms} ${row.action} ${row.call ?? row.uid ?? row.subject} ${row.answer}`,
    sign: row.changed === false ? "event" : "operator",
    says: html`${row.by}: ${row.action} ${name && html`<em>${name}</em>`}${row.changed === false ? ", refused" : ""}`,
    sub: [row.reason && `“${row.reason}”`, row.answer].filter(Boolean).join("; "),
    href,
  };
}

/**
 * @param {{nodes: any[] | null, gates: any[], clock: number}} props
 */
export function Changed({ nodes, gates, clock }) {
  const since = Math.floor((clock - LATELY) / 3_600_000) * 3_600_000;
  const told = useAsk(`actions?since=${since}&limit=100`, { every: 10_000 });
  const policies = useAsk("activities/policies", { every: 15_000 }).data?.items ?? [];
  const [shown, show] = useState(FIRST);
  const [more, setMore] = useState({ items: /** @type {any[]} */ ([]), cursor: /** @type {string | null | undefined} */ (undefined) });
  const actions = [...(told.data?.items ?? []), ...more.items];
  const isOld = told.problem?.status === 404;
  const lately = (at) => at && at >= since;
  // Policies and gates are told of among the actions, where the server keeps those.
  const known = new Set(actions.filter((row) => row.action === "policy" || row.action === "gate").map((row) => row.subject));
  /** @type {Change[]} */
  const all = [
    ...actions.map(ofAction),
    ...(nodes ?? []).filter((node) => lately(node.since_ms)).map((node) => ({ at: node.since_ms, key: `n${node.node}`, sign: "running", says: html`<em>${node.program}</em> began to work`, sub: `node ${node.node}${node.build ? `, build ${node.build}` : ""}`, href: to("workers") })),
    ...policies.filter((row) => lately(row.at_ms) && !known.has(row.activity)).map((row) => ({ at: row.at_ms, key: `p${row.activity}`, sign: "operator", says: html`${row.by}: another policy for <em>${row.activity}</em>`, sub: row.reason ? `“${row.reason}”` : "", href: to("activities", null, { name: row.activity }) })),
    ...gates.filter((gate) => lately(gate.since_ms) && !(gate.by_hand && known.has(gate.key))).map((gate) => ({ at: gate.since_ms, key: `g${gate.key} ${gate.since_ms}`, sign: gate.standing === "flowing" ? "done" : "gated", says: html`gate <em>${gate.key}</em> is ${gate.standing}`, sub: gate.by_hand ? `by hand, by ${gate.by_hand.by}` : gate.why, href: to("gates", null, { key: gate.key }) })),
  ].sort((a, b) => b.at - a.at);
  const cursor = more.cursor === undefined ? told.data?.cursor : more.cursor;
  const { rows, changed, show: renew, box } = useSteady(all.slice(0, shown), (it) => it.key, { epoch: shown });
  const load = async () => {
    show(shown + 100);
    if (all.length > shown + 100 || !cursor) return;
    const page = await ask(`actions?since=${since}&limit=100&cursor=${encodeURIComponent(cursor)}`).catch(() => null);
    if (page) setMore({ items: [...more.items, ...page.items], cursor: page.cursor });
  };
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${renew} />
    ${rows.length ? html`<ul class="needs changes">${rows.map((it) => html`<li data-row tabindex="-1" key=${it.key} class=${it.gone ? "gone" : ""}><${Sign} name=${it.sign} size=${16} />
      <p>${it.href ? html`<a href=${it.href}>${it.says}</a>` : it.says}${it.sub && html`<span class="sub">${it.sub}</span>`}</p><${Time} at=${it.at} now=${clock} /></li>`)}</ul>` : html`<${Empty}>Nothing in the last day: no action, no other build, no other policy.<//>`}</div>
    ${(all.length > shown || cursor) && html`<p class="acts after"><button type="button" onClick=${load}>100 more</button></p>`}
    ${isOld ? html`<p class="quiet">This server does not tell what people did across instances; each instance does.</p>` : html`<${Trouble} problem=${told.problem} />`}`;
}
