// What waits for a decision: paused calls and dead letters, grouped by what they failed with. One decision
// for a group.
import { html } from "./vendor/html.js";
import { useRef, useState } from "./vendor/hooks.mjs";
import { onGroup } from "./acts.js";
import { to } from "./address.js";
import { ask, useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
import { Fresh, useSteady } from "./lists.js";
import { Empty, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Sign } from "./shapes.js";
import { failed, from, Many, many, message } from "./words.js";

/** @typedef {any & {kind: "paused" | "dead"}} Group */

/** @param {{query: URLSearchParams}} props */
export function Inbox({ query }) {
  useTitle("Inbox");
  const clock = useClock();
  const paused = useAsk("paused?group=fingerprint");
  const letters = useAsk("dead-letters?group=fingerprint");
  const problem = paused.problem ?? letters.problem;
  // The group that somebody has decided about stays beside the list, with what came of it.
  const [decided, decide] = useState(/** @type {any} */ (null));
  if (!paused.data || !letters.data) return html`<${Wait} problem=${problem} />`;
  /** @type {Group[]} */
  const groups = [
    ...paused.data.items.map((group) => ({ ...group, kind: "paused" })),
    ...letters.data.items.map((group) => ({ ...group, kind: "dead" })),
  ].sort((a, b) => b.count - a.count);
  const named = query.get("group");
  const wanted = groups.find(
    (group) => group.kind === (query.get("kind") ?? group.kind) && group.fingerprint === named,
  );
  const stays = decided && (!named || decided.fingerprint === named) ? { ...decided, count: 0 } : null;
  const chosen = wanted ?? (stays && (groups.find((group) => name(group) === name(stays)) ?? stays)) ?? (named ? null : groups[0]);
  const count = (kind) => groups.filter((group) => group.kind === kind).reduce((sum, group) => sum + group.count, 0);
  const all = count("paused") + count("dead");
  return html`<div class="lede">
    <div>${groups.length ? html`<h1>${Many(all, "call waits", "calls wait")} for ${groups.length === 1 ? "one decision" : many(groups.length, "decision")}. The largest: <em>${groups[0].activity}</em>, ${many(groups[0].count, "time")}, <strong>${groups[0].error}</strong>.</h1>` : html`<h1>Nothing waits for a decision.</h1>`}
      <p class="under"><span><b>${count("paused")}</b> paused calls, still open</span><span>
        <b>${count("dead")}</b> dead letters</span>
        <span>grouped by fingerprint: activity, type, code, message without numbers and ids</span></p></div></div>
    <${Trouble} problem=${problem} />
    ${
      groups.length || stays
        ? html`<div class="two"><${Part} flat title="Groups" says=${groups.length ? "the largest first" : ""}>
          ${groups.length ? html`<${Groups} groups=${groups} chosen=${chosen} clock=${clock} />` : html`<${Empty}>No other group waits for a decision.<//>`}<//>
      <aside class="stick">${chosen ? html`<${Chosen} key=${name(chosen)} group=${chosen} clock=${clock} done=${() => decide(chosen)} />` : html`<${Empty}>This group is decided, or gone.<//>`}</aside></div>`
        : html`<${Empty}>A call stands here when its policy says <code>on_exhausted: "pause"</code> or <code>"dead_letter"</code> and its attempts have run out, or when somebody paused it.<//>`
    }`;
}

/** @param {Group} group */
const name = (group) => group.kind + group.fingerprint;

function Groups({ groups, chosen, clock }) {
  const { rows, changed, show, box } = useSteady(groups, name);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} />
    <ul class="groups">${rows.map((group) => html`<${Row} key=${name(group)} group=${group} clock=${clock} on=${chosen !== null && name(group) === name(chosen)} />`)}</ul></div>`;
}

function Row({ group, clock, on }) {
  return html`<li data-row tabindex="-1" class=${group.gone ? "gone" : ""} aria-current=${on ? "true" : null}>
    <${Sign} name=${group.kind === "dead" ? "dead" : "paused"} size=${20} /><div>
      <h3><a href=${to("inbox", null, { kind: group.kind, group: group.fingerprint })}>${group.activity}</a></h3>
        <p class="msg">${group.error}</p>
      <p class="meta"><span>${group.kind === "dead" ? "dead letters" : "paused"}</span>
        <span>the newest ${from(group.newest_ms, clock)}</span><span>the oldest ${from(group.oldest_ms, clock)}</span>
        </p></div>
    <p class="big">${group.count.toLocaleString("en")}<small>${group.count === 1 ? "call" : "calls"}</small></p>
      </li>`;
}

function Chosen({ group, clock, done }) {
  return html`<${Deed} acts=${group.count ? onGroup(group, group.kind) : []} label="Decide for ${group.activity}" done=${done} />
    ${group.count > 0 && html`<${Members} group=${group} clock=${clock} />`}`;
}

/** How many calls of a group are shown at first, and how many more each time. */
const PAGE = 20;
const MORE = 100;

/** The calls of a group, the newest first; more when somebody asks for them. */
function Members({ group, clock }) {
  const path = `${group.kind === "dead" ? "dead-letters" : "paused"}?fingerprint=${encodeURIComponent(group.fingerprint)}`;
  const { data } = useAsk(`${path}&limit=${PAGE}`, { every: 10_000 });
  const [more, setMore] = useState(/** @type {any[]} */ ([]));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const cursor = useRef(/** @type {string | null | undefined} */ (undefined));
  const first = data?.items ?? [];
  const have = new Set(first.map((call) => call.call));
  const { rows, changed, show, box } = useSteady([...first, ...more.filter((call) => !have.has(call.call))], (call) => call.call, { epoch: more.length });
  const next = cursor.current === undefined ? data?.cursor : cursor.current;
  const load = async () => {
    try {
      const page = await ask(`${path}&limit=${MORE}&cursor=${encodeURIComponent(next ?? "")}`);
      cursor.current = page.cursor;
      setMore([...more, ...page.items]);
    } catch (wrong) {
      setProblem(wrong);
    }
  };
  return html`<${Part} flat title="The newest of them" says=""><div ref=${box}><${Fresh} changed=${changed} show=${show} /><ul class="needs members">${rows.map((call) => html`<li key=${call.call} class=${call.gone ? "gone" : ""}>
      <${Sign} name=${group.kind === "dead" ? "dead" : "paused"} size=${16} /><p>
      <a class="id" href=${to("call", call.call)}>${call.instance}</a>
      <span class="sub">${call.failure ? `${failed(call.failure)}: ${message(call.failure)}` : call.paused?.stopped ? `out of attempts (${call.paused.stopped})` : (call.paused?.reason ?? "")}</span></p><${Time} at=${call.at_ms ?? call.paused?.since_ms} now=${clock} /></li>`)}</ul></div>
      ${next && html`<p class="acts after"><button type="button" onClick=${load}>${MORE} more</button><span class="quiet">${rows.length} of ${group.count.toLocaleString("en")} are shown</span></p>`}
      <${Trouble} problem=${problem} /><//>`;
}
