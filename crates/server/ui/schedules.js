// What starts by the clock.
import { html } from "./vendor/html.js";
import { onSchedule } from "./acts.js";
import { to } from "./address.js";
import { useAsk, useClock } from "./api.js";
import { Deed } from "./deed.js";
import { Fresh, useSteady } from "./lists.js";
import { Command, Empty, Part, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Payload } from "./payload.js";
import { Sign } from "./shapes.js";
import { from, Many, many } from "./words.js";

/** @param {{query: URLSearchParams}} props */
export function Schedules({ query }) {
  useTitle("Schedules");
  const clock = useClock();
  const { data, problem } = useAsk("schedules");
  if (!data) return html`<${Wait} problem=${problem} />`;
  const all = data.items;
  const chosen = all.find((row) => row.id === query.get("id")) ?? (query.get("id") ? null : all[0]);
  const wrong = all.filter((row) => row.error);
  const next = all.filter((row) => !row.paused && row.next_ms.length).sort((a, b) => a.next_ms[0] - b.next_ms[0])[0];
  return html`<div class="lede">
    <div>${all.length ? html`<h1>${Many(all.length, "schedule")}${wrong.length ? html`, of which <strong>${wrong.length} cannot fire</strong>` : ""}.${next ? html` The next is <em>${next.id}</em>, <strong class="wait">${from(next.next_ms[0], clock)}</strong>.` : ""}</h1>` : html`<h1>Nothing starts by the clock.</h1>`}</div></div>
    <${Trouble} problem=${problem} />
    ${
      all.length
        ? html`<div class="two"><${Part} flat title="Schedules" says=""><${Table} all=${all} chosen=${chosen} clock=${clock} /><//>
      <aside class="stick">${
        chosen &&
        html`<${Deed} key=${chosen.id} acts=${onSchedule(chosen)} label="Act on ${chosen.id}" />
        <${Part} flat title=${chosen.id} says=""><dl class="facts"><dt>starts</dt>
          <dd>${chosen.workflow}</dd>${chosen.last && html`<dt>last</dt><dd>
          <a class="id" href=${to("instances", null, { schedule: chosen.id })}>${chosen.last}</a>${chosen.last_open ? ", still open" : ""}</dd>`}
          ${chosen.next_ms.slice(0, 5).map((at, i) => html`<dt>${i ? "" : "next"}</dt><dd>
            <${Time} at=${at} now=${clock} /></dd>`)}</dl>
          <${Payload} title="Rule" value=${chosen.schedule} name="${chosen.id}-rule" open />
            <${Payload} title="Input" value=${chosen.input} name="${chosen.id}-input" /><//>`
      }</aside></div>`
        : html`<${Empty}>A schedule starts a program, a graph or a workflow at certain times.<//>
          <${Command} line="resurgam schedule create nightly report.rap --cron '0 3 * * *'" />`
    }`;
}

function Table({ all, chosen, clock }) {
  const { rows, changed, show, box } = useSteady(all, (row) => row.id);
  return html`<div ref=${box}><${Fresh} changed=${changed} show=${show} /><table class="list plain"><thead><tr>
      <th>Schedule</th><th>Starts</th><th>Stands</th><th class="num">Next</th><th class="num">Started</th></tr></thead>
    <tbody>${rows.map(
      (row) => html`<tr data-row tabindex="-1" key=${row.id} class=${row.gone ? "gone" : ""} aria-selected=${row.id === chosen?.id ? "true" : null}><td>
        <a class="id" href=${to("schedules", null, { id: row.id })}>${row.id}</a></td><td class="quiet">${row.workflow}</td>
      <td><span class="tag"><${Sign} name=${row.error ? "blocked" : row.paused ? "paused" : "timer"} size=${15} />${row.error ?? (row.paused ? "paused" : "fires")}</span></td>
      <td class="num">${row.paused ? "–" : html`<${Time} at=${row.next_ms[0]} now=${clock} />`}</td>
      <td class="num" data-what="started">${row.started.toLocaleString("en")}${row.missed ? `, ${row.missed} missed` : ""}${row.skipped ? `, ${row.skipped} skipped` : ""}</td></tr>`,
    )}</tbody></table></div>`;
}
