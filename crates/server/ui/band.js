// The policy of a call as a curve: the band that each delay is drawn from, the delays that were drawn as
// dots on it, and the lintel where the attempts end.
import { html } from "./vendor/html.js";
import { useWidth } from "./parts.js";
import { disc, line, path, rect, text } from "./shapes.js";
import { span } from "./words.js";

/** As many as fit beside each other; of a longer policy the first ones and the ones ahead are drawn. */
const COLUMNS = 14;

const GRID = [
  1, 10, 100, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000,
];

/**
 * The delay that followed each counted failure, in their order.
 * @param {any[]} attempts
 */
export const drawn = (attempts) => attempts.filter((row) => row.outcome === "failed" && row.delay_ms !== null);

/** Which columns are drawn. @param {any[]} delays @param {number} failures */
function shown(delays, failures) {
  if (delays.length <= COLUMNS) return delays;
  const begin = Math.max(0, Math.min(failures - COLUMNS / 2, delays.length - COLUMNS));
  return delays.slice(begin, begin + COLUMNS);
}

/**
 * @param {{delays: any, attempts: any[], failures: number, max: number | null, before?: any[]}} props
 * `before` are the delays of another policy, drawn as a line.
 */
export function Band({ delays, attempts, failures, max, before = [] }) {
  const [box, W] = useWidth();
  const steps = shown(delays.delays, failures);
  return html`<div ref=${box} class="chart">${W > 0 && steps.length > 0 && html`<${Drawing} W=${W} steps=${steps} dots=${drawn(attempts)} failures=${failures} max=${max} ends=${delays.ends_by} before=${before} more=${delays.more || steps.at(-1) !== delays.delays.at(-1)} />`}</div>`;
}

function Drawing({ W, steps, dots, failures, max, ends, before, more }) {
  const small = W < 560;
  const [L, top, H] = [small ? 40 : 52, 26, small ? 230 : 270];
  const bottom = H - 34;
  const values = steps
    .flatMap((step) => [step.low_ms, step.high_ms])
    .concat(dots.map((row) => row.delay_ms), before.map((step) => step.middle_ms))
    .filter((ms) => ms > 0);
  const [least, most] = [Math.max(1, Math.min(...values, 1_000) * 0.8), Math.max(...values, 1_000) * 1.3];
  const Y = (ms) =>
    bottom -
    ((Math.log(Math.max(ms, least)) - Math.log(least)) / (Math.log(most) - Math.log(least))) * (bottom - top);
  const lintel = more ? 20 : small ? 30 : 74;
  const c = (W - L - lintel) / steps.length;
  const dot = (step) => dots[step.failure - 1];
  const line_ = steps.map((step, i) => `${i ? "V" : `M${L} `}${Y(step.middle_ms)}H${L + (i + 1) * c}`).join("");
  const was = before.slice(0, steps.length).map((step, i) => `${i ? "V" : `M${L} `}${Y(step.middle_ms)}H${L + (i + 1) * c}`).join("");
  const x = L + steps.length * c + 6;
  return html`<svg width=${W} height=${H} viewBox="0 0 ${W} ${H}" role="group" aria-label="The delay after each failure: what the policy allows, and what was drawn">
    ${GRID.filter((ms) => ms > least && ms < most).map((ms) => html`${line(L, Y(ms), W - 4, Y(ms), "l-rule l-1")}${text(L - 8, Y(ms) + 4, span(ms), "t-q", "end")}`)}
    ${steps.map((step, i) => html`<${Column} step=${step} dot=${dot(step)} x=${L + i * c} c=${c} Y=${Y} top=${top} bottom=${bottom} small=${small || c < 62} past=${step.failure <= failures} />`)}
    ${was && path(was, "l-ink2 l-15 dash")}
    ${path(line_, "l-ink l-15")}
    ${steps.map((step, i) => dot(step) && html`<${Dot} step=${step} row=${dot(step)} x=${L + (i + 0.5) * c} Y=${Y} small=${small || c < 70} />`)}
    ${
      !more &&
      html`${rect(x, top - 6, 5, bottom - top + 6, "f-mad")}${text(small ? W : x + 12, small ? top - 12 : top + 6, `failure ${max ?? steps.at(-1).failure + 1}`, "t-mad t-b", small ? "end" : "start")}
      ${!small && text(x + 12, top + 21, ends === "max_elapsed" ? "time is up" : "the end", "t-mad")}`
    }
    ${line(L, bottom + 0.5, W - lintel + 10, bottom + 0.5, "l-rule2 l-1")}${text(L, H - 4, "after failure", "t-q")}
  </svg>`;
}

function Column({ step, dot, x, c, Y, top, bottom, small, past }) {
  const [low, high] = [Y(step.low_ms), Y(step.high_ms)];
  const range = step.low_ms === step.high_ms ? span(step.low_ms) : `${span(step.low_ms)} to ${span(step.high_ms)}`;
  const note = dot
    ? `failure ${step.failure}: waited ${span(dot.delay_ms)}, of ${range}. ${dot.why}`
    : `failure ${step.failure}: ${past ? "waited within" : "would wait"} ${range}`;
  const height = Math.max(2, low - high);
  return html`${
    past
      ? html`${rect(x + 1, high, c - 2, height, "f-wait")}${line(x + 1, high, x + c - 1, high, "l-wait l-1")}${line(x + 1, low, x + c - 1, low, "l-wait l-1")}`
      : html`<rect x=${x + 1} y=${high} width=${Math.max(1, c - 2)} height=${height} class="l-wait l-1 dash" />`
  }
    ${!small && !past && text(x + c / 2, high - 6, range, "t-wait", "middle")}
    ${text(x + c / 2, bottom + 16, String(step.failure), past ? "t-b" : "t-q", "middle")}
    <g tabindex="0" role="img" aria-label=${note}><title>${note}</title>${rect(x, top, c, bottom - top, "hit")}</g>`;
}

/** What was drawn lies in the band; what lies outside of it was asked for by the server that failed. */
function Dot({ step, row, x, Y, small }) {
  const asked = row.delay_ms > step.high_ms * 1.01;
  const y = Y(row.delay_ms);
  const label = asked ? `${span(row.delay_ms)}, as asked` : span(row.delay_ms);
  return html`${asked ? path(`M${x} ${y - 7}l7 7-7 7-7-7z`, "f-fail d-halo") : disc(x, y, 6, "f-fail d-halo")}
    ${text(small ? x : x + 11, y + (small ? -11 : 4), small ? span(row.delay_ms) : label, "t-ink t-b halo", small ? "middle" : "start")}`;
}
