// Who works on the database.
import { html } from "./vendor/html.js";
import { to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Fresh, useSteady } from "./lists.js";
import { Command, Empty, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Sign } from "./shapes.js";
import { many } from "./words.js";

export function Workers() {
  useTitle("Workers");
  const clock = useClock();
  const { data, problem } = useAsk("nodes");
  const now = useAsk("now").data;
  const remote = useAsk("workers").data?.items ?? [];
  const queues = useAsk("queues");
  const ofQueues = useSteady(queues.data?.items ?? [], (queue) => queue.queue);
  const ofNodes = useSteady(data?.items ?? [], (node) => node.node);
  const ofWorkers = useSteady(remote, (worker) => worker.session);
  if (!data) return html`<${Wait} problem=${problem} />`;
  const nodes = data.items;
  const lacking = (now?.groups ?? []).filter((group) => group.state === "unregistered");
  return html`<div class="lede"><div>
    <h1>${nodes.length ? html`${nodes.length === 1 ? html`<em>${nodes[0].program}</em> works` : `${many(nodes.length, "node")} work`}.` : html`<strong>Nobody works</strong> on this database. What is asked for is stored until somebody does.`}</h1></div></div>
    <${Trouble} problem=${problem} />
    <${Part} title="Nodes" says="Processes that work on this database.">${
      nodes.length
        ? html`<div ref=${ofNodes.box}><${Fresh} ...${ofNodes} /><table class="list plain"><thead><tr><th>Node</th><th>Program</th><th class="num">Process</th>
          <th class="num">Since</th></tr></thead><tbody>
      ${ofNodes.rows.map((node) => html`<tr data-row tabindex="-1" key=${node.node} class=${node.gone ? "gone" : ""}><td class="wide"><span class="tag">
        <${Sign} name="running" size=${15} /><span class="id">${node.node}</span></span></td><td>${node.program}</td>
        <td class="num" data-what="is its process">${node.pid ?? "–"}</td><td class="num"><${Time} at=${node.since_ms} now=${clock} /></td>
        </tr>`)}</tbody></table></div>`
        : html`<${Empty}>Start one, and it takes up what waits.<//>
          <${Command} line="resurgam worker --actions actions" />`
    }<//>
    <${Part} title="Remote workers" says="Workers in other languages that this server heard of within a lease.">${
      remote.length
        ? html`<div ref=${ofWorkers.box}><${Fresh} ...${ofWorkers} /><table class="list plain"><thead><tr><th>Session</th><th>Offers</th><th class="num">Runs</th>
          <th>Stands</th><th class="num">Heard of</th></tr></thead><tbody>
      ${ofWorkers.rows.map((worker) => html`<tr data-row tabindex="-1" key=${worker.session} class=${worker.gone ? "gone" : ""}><td class="id wide">${worker.session}</td>
        <td>${worker.activities.join(", ")}</td><td class="num" data-what="run">${worker.running}</td><td><span class="tag">
        <${Sign} name=${worker.running ? "running" : "event"} size=${15} />${worker.polls ? "waits for more" : "busy"}</span></td><td class="num"><${Time} at=${worker.heard_ms} now=${clock} /></td></tr>`)}</tbody></table></div>`
        : html`<${Empty}>None has asked for work. A worker is a program in any language that polls <code>/api/v1/worker/poll</code>.<//>`
    }<//>
    ${queues.data && html`<${Part} title="Queues" says=${queues.data.is_all ? "Open calls by queue." : `Open calls by queue, of the first ${queues.data.looked_at.toLocaleString("en")}.`}>${
      ofQueues.rows.length
        ? html`<div ref=${ofQueues.box}><${Fresh} ...${ofQueues} /><table class="list plain"><thead><tr><th>Queue</th>
          <th>Stands</th><th class="num">Run</th><th class="num">Due</th><th class="num">Later</th><th class="num">Paused</th><th class="num">The oldest</th></tr></thead><tbody>
      ${ofQueues.rows.map((it) => html`<tr data-row tabindex="-1" key=${it.queue} class=${it.gone ? "gone" : ""}><td><a class="id" href=${to("gates", null, { queue: it.queue })}>${it.queue}</a></td>
        <td><span class="tag"><${Sign} name=${it.hold ? "paused" : it.running ? "running" : "event"} size=${15} />${it.hold ? `paused by ${it.hold.by}${it.hold.reason ? `: “${it.hold.reason}”` : ""}` : "flows"}</span></td>
        ${[["running", "run"], ["waiting", "due"], ["later", "later"], ["paused", "paused"]].map(([name, what]) => html`<td class="num" data-what=${what}>${it[name].toLocaleString("en")}</td>`)}
        <td class="num"><${Time} at=${it.oldest_ms} now=${clock} /></td></tr>`)}</tbody></table></div>`
        : html`<${Empty}>No call is open. A queue stands here while calls of it run or wait.<//>`
    }<//>`}
    ${lacking.length > 0 && html`<${Part} title="Nobody knows" says="Activities with calls that no process can run.">
      <ul class="needs">${lacking.map((group) => html`<li data-row tabindex="-1"><${Sign} name="nobody" />
      <p class="say">
      <em>${group.activity}</em>, queue ${group.queue}: ${many(group.count, "call waits", "calls wait")}</p>
      <${Time} at=${group.since_ms} now=${clock} /><span></span></li>`)}</ul><//>`}`;
}
