// What waits for a decision: paused calls and dead letters, grouped by what they failed with. One decision
// for a group.
import { html } from "./vendor/html.js";
import { onGroup } from "./acts.js";
import { amend, to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
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
  if (!paused.data || !letters.data) return html`<${Wait} problem=${problem} />`;
  /** @type {Group[]} */
  const groups = [
    ...paused.data.items.map((group) => ({ ...group, kind: "paused" })),
    ...letters.data.items.map((group) => ({ ...group, kind: "dead" })),
  ].sort((a, b) => b.count - a.count);
  const wanted = groups.find(
    (group) => group.kind === (query.get("kind") ?? group.kind) && group.fingerprint === query.get("group"),
  );
  const chosen = wanted ?? (query.get("group") ? null : groups[0]);
  const count = (kind) => groups.filter((group) => group.kind === kind).reduce((sum, group) => sum + group.count, 0);
  const all = count("paused") + count("dead");
  return html`<div class="lede">
    <div>${groups.length ? html`<h1>${Many(all, "call waits", "calls wait")} for ${groups.length === 1 ? "one decision" : many(groups.length, "decision")}. The largest: <em>${groups[0].activity}</em>, ${many(groups[0].count, "time")}, <strong>${groups[0].error}</strong>.</h1>` : html`<h1>Nothing waits for a decision.</h1>`}
      <p class="under"><span><b>${count("paused")}</b> paused calls, still open</span><span>
        <b>${count("dead")}</b> dead letters</span>
        <span>grouped by fingerprint: activity, type, code, message without numbers and ids</span></p></div></div>
    <${Trouble} problem=${problem} />
    ${
      groups.length
        ? html`<div class="two"><${Part} flat title="Groups" says="the largest first">
          <ul class="groups">${groups.map((group) => html`<${Row} key=${group.kind + group.fingerprint} group=${group} clock=${clock} on=${group === chosen} />`)}</ul><//>
      <aside class="stick">${chosen ? html`<${Chosen} key=${chosen.kind + chosen.fingerprint} group=${chosen} clock=${clock} act=${query.get("act")} />` : html`<${Empty}>This group is decided, or gone.<//>`}</aside></div>`
        : html`<${Empty}>A call stands here when its policy says <code>on_exhausted: "pause"</code> or <code>"dead_letter"</code> and its attempts have run out, or when somebody paused it.<//>`
    }`;
}

function Row({ group, clock, on }) {
  return html`<li data-row tabindex="-1" aria-current=${on ? "true" : null}>
    <${Sign} name=${group.kind === "dead" ? "dead" : "paused"} size=${20} /><div>
      <h3><a href=${to("inbox", null, { kind: group.kind, group: group.fingerprint })}>${group.activity}</a></h3>
        <p class="msg">${group.error}</p>
      <p class="meta"><span>${group.kind === "dead" ? "dead letters" : "paused"}</span>
        <span>the newest ${from(group.newest_ms, clock)}</span><span>the oldest ${from(group.oldest_ms, clock)}</span>
        </p></div>
    <p class="big">${group.count.toLocaleString("en")}<small>${group.count === 1 ? "call" : "calls"}</small></p>
      </li>`;
}

function Chosen({ group, clock, act }) {
  const path = group.kind === "dead" ? "dead-letters" : "paused";
  const members =
    useAsk(`${path}?fingerprint=${encodeURIComponent(group.fingerprint)}&limit=20`, { every: 10_000 }).data?.items ??
    [];
  return html`<${Deed} acts=${onGroup(group, group.kind)} label="Decide for ${group.activity}" chosen=${act ?? undefined} choose=${(next) => amend({ act: next })} />
    <${Part} flat title="The newest of them" says=""><ul class="needs members">${members.map((call) => html`<li>
      <${Sign} name=${group.kind === "dead" ? "dead" : "paused"} size=${16} /><p>
      <a class="id" href=${to("call", call.call)}>${call.instance}</a>
      <span class="sub">${call.failure ? `${failed(call.failure)}: ${message(call.failure)}` : call.paused?.stopped ? `out of attempts (${call.paused.stopped})` : (call.paused?.reason ?? "")}</span></p><${Time} at=${call.at_ms ?? call.paused?.since_ms} now=${clock} /></li>`)}</ul>
      ${group.count > members.length && members.length > 0 && html`<p class="quiet">${members.length} of ${group.count} are shown.</p>`}<//>`;
}
