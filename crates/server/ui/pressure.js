// Pressure: how many attempts failed, by activity and minute. Higher and stronger is more; where a column
// has a lintel, calls ran out of attempts.
import { html } from "./vendor/html.js";
import { to } from "./address.js";
import { useAsk } from "./api.js";
import { useWidth } from "./parts.js";
import { line, rect, text } from "./shapes.js";
import { many } from "./words.js";

/** @typedef {{failures: number, exhausted: number, successes: number, types: Map<string, number>}} Cell */
/** @typedef {{name: string, cells: Cell[], failures: number, exhausted: number, successes: number}} Row */

const MINUTE = 60_000;

/** From which number of failures on a column is drawn at which level. */
const LEVELS = [1, 4, 13, 61, 251];
const level = (failures) => LEVELS.filter((least) => failures >= least).length;

/** @returns {Cell} */
const nothing = () => ({ failures: 0, exhausted: 0, successes: 0, types: new Map() });

/**
 * What was counted, by activity and step, those with the most failures first.
 * @param {any} told @returns {{begin: number, step: number, rows: Row[]}}
 */
export function columns(told) {
  const step = told.step_ms ?? MINUTE;
  const begin = Math.floor(told.from_ms / step) * step;
  const count = Math.max(1, Math.ceil((told.to_ms - begin) / step));
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const item of told.items) {
    const fresh = () => ({ name: item.activity, cells: Array.from({ length: count }, nothing), failures: 0, exhausted: 0, successes: 0 });
    const row = rows.get(item.activity) ?? fresh();
    rows.set(item.activity, row);
    const cell = row.cells[Math.floor((item.at_ms - begin) / step)];
    for (const what of ["failures", "exhausted", "successes"]) {
      row[what] += item[what];
      if (cell) cell[what] += item[what];
    }
    if (cell && item.failures) cell.types.set(item.failure_type ?? "a failure", (cell.types.get(item.failure_type ?? "a failure") ?? 0) + item.failures);
  }
  const all = [...rows.values()].sort((a, b) => b.failures - a.failures || b.successes - a.successes || a.name.localeCompare(b.name));
  return { begin, step, rows: all };
}

/** What was counted in so many hours, in steps of so many minutes. @param {number} hours @param {number} step */
export function usePressure(hours, step) {
  const from = hours === 1 ? "" : `?step=${step}&from=${Math.floor((Date.now() - hours * 3_600_000) / (step * MINUTE)) * step * MINUTE}`;
  return useAsk(`pressure${from}`, { every: 10_000 });
}

const clock = (ms) => new Date(ms).toISOString().slice(11, 16);

/** What a column says. @param {string} name @param {Cell} cell @param {number} at */
const note = (name, cell, at) =>
  `${name}, ${clock(at)} UTC: ${many(cell.failures, "failure")}${cell.types.size ? ` (${[...cell.types].map(([type, count]) => `${type} ${count}`).join(", ")})` : ""}${cell.exhausted ? `, ${many(cell.exhausted, "call")} out of attempts` : ""}, ${many(cell.successes, "success", "successes")}`;

/**
 * @param {{told: any, most: number, chosen?: {name: string, at: number} | null, hours?: number}} props
 */
export function Pressure({ told, most, chosen = null, hours = 1 }) {
  const [box, W] = useWidth();
  const { begin, step, rows } = columns(told);
  const shown = rows.slice(0, most);
  return html`<div ref=${box} class="pressure">${W > 0 && html`<${Drawing} W=${W} begin=${begin} step=${step} rows=${shown} chosen=${chosen} hours=${hours} />`}</div>
    <${Legend} />${rows.length > shown.length && html`<p class="quiet">${shown.length} of ${many(rows.length, "activity", "activities")}, those with the most failures. <a href=${to("activities")}>See all</a></p>`}`;
}

function Drawing({ W, begin, step, rows, chosen, hours }) {
  const small = W < 700;
  const count = rows[0]?.cells.length ?? 1;
  // A phone shows the newest half.
  const first = small ? Math.floor(count / 2) : 0;
  const [left, right] = small ? [0, 0] : [150, 236];
  const c = (W - left - right) / (count - first);
  const [row, bar, head] = [small ? 50 : 26, small ? 22 : 20, 18];
  const H = head + rows.length * row + 4;
  const marks = Array.from({ length: count }, (_, i) => i).filter((i) => i >= first && Math.round((begin + i * step) / step) % (hours === 1 ? 10 : 12) === 0);
  return html`<svg width=${W} height=${H} viewBox="0 0 ${W} ${H}" role="group" aria-label="Failures by activity and minute">
    ${marks.map((i) => html`${text(left + (i - first) * c, 11, clock(begin + i * step), "t-q", i === first ? "start" : W - left - (i - first) * c < 40 ? "end" : "middle")}${line(left + (i - first) * c, head - 3, left + (i - first) * c, H - 4, "l-rule l-1")}`)}
    ${!small && html`${text(W - 156, 11, "failures", "t-q", "end")}${text(W - 78, 11, "exhausted", "t-q", "end")}${text(W - 4, 11, "successes", "t-q", "end")}`}
    ${rows.map((it, k) => html`<${Line} key=${it.name} it=${it} y=${head + k * row} h=${row} bar=${bar} left=${left} c=${c} first=${first} W=${W} small=${small} begin=${begin} step=${step} chosen=${chosen?.name === it.name ? chosen.at : 0} hours=${hours} />`)}
  </svg>`;
}

function Line({ it, y, h, bar, left, c, first, W, small, begin, step, chosen, hours }) {
  const base = y + h - 4;
  const end = small ? W : W - 236;
  const place = (at) => to("activities", null, { name: it.name, at, hours: hours === 1 ? null : hours });
  const name = it.name.length > (small ? 24 : 20) ? `${it.name.slice(0, small ? 23 : 19)}…` : it.name;
  const out = it.exhausted ? it.exhausted.toLocaleString("en") : "–";
  return html`<g><a href=${to("activities", null, { name: it.name, hours: hours === 1 ? null : hours })} aria-label="Activity ${it.name}">${text(0, small ? y + 14 : base - 4, name, "t-ink t-code")}</a>
    ${line(left, base + 0.5, end, base + 0.5, "l-rule2 l-1")}
    ${it.cells.slice(first).map((cell, i) => {
      const [at, l, x] = [begin + (i + first) * step, level(cell.failures), left + i * c];
      const high = (l * bar) / 5;
      if (!l && !cell.exhausted) return "";
      return html`${rect(x, base - high, Math.max(1, c - 1.2), high, `h-${l}`)}${l > 0 && rect(x, base - high, Math.max(1, c - 1.2), 1.5, l < 4 ? "f-fail" : `h-${l}`)}
        ${cell.exhausted > 0 && rect(x - 0.4, base - high - 3.6, Math.max(2, c - 0.4), 2.6, "f-mad")}
        <a href=${place(at)} aria-label=${note(it.name, cell, at)} aria-current=${chosen === at ? "true" : null}><title>${note(it.name, cell, at)}</title>${rect(x, y + 2, c, h - 4, chosen === at ? "chosen" : "hit")}</a>`;
    })}
    ${
      small
        ? text(W, y + 14, `${many(it.failures, "failure")}${it.exhausted ? `, ${out} exhausted` : ""}`, it.exhausted ? "t-mad" : "t-q", "end")
        : html`${text(W - 156, base - 4, it.failures.toLocaleString("en"), "t-ink", "end")}${text(W - 78, base - 4, out, it.exhausted ? "t-mad t-b" : "t-q", "end")}${text(W - 4, base - 4, it.successes.toLocaleString("en"), "t-q", "end")}`
    }</g>`;
}

const Legend = () => html`<div class="key">${["1 to 3", "to 12", "to 60", "to 250", "more"].map(
  (says, i) => html`<span><svg width="10" height="22" aria-hidden="true">${line(0, 21.5, 10, 21.5, "l-rule2 l-1")}${rect(0, 21 - (i + 1) * 4, 9, (i + 1) * 4, `h-${i + 1}`)}${rect(0, 21 - (i + 1) * 4, 9, 1.5, i < 3 ? "f-fail" : `h-${i + 1}`)}</svg>${says}</span>`,
)}<span><svg width="10" height="22" aria-hidden="true">${line(0, 21.5, 10, 21.5, "l-rule2 l-1")}${rect(0, 9, 9, 12, "h-3")}${rect(0, 5, 9, 2.4, "f-mad")}</svg>some calls ran out of attempts</span></div>`;

/** What is said of the numbers. @param {{told: any}} props */
export const Caveat = ({ told }) => (told.is_cut ? html`<p class="quiet">There is more than fits one answer: ask for less time.</p>` : null);
