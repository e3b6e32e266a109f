// The visual grammar: every shape of the dashboard is drawn here, in `band.js` and in `flight.js`, and
// nowhere else. Up is an attempt, across is a wait, a disc is done, a lintel is where the budget ends,
// down is undone. Each shape can be told apart without its colour.
import { html } from "./vendor/html.js";

export const rect = (x, y, w, h, c) =>
  html`<rect x=${x} y=${y} width=${Math.max(0, w)} height=${Math.max(0, h)} class=${c} />`;
export const line = (x1, y1, x2, y2, c) => html`<line x1=${x1} y1=${y1} x2=${x2} y2=${y2} class=${c} />`;
export const path = (d, c) => html`<path d=${d} class=${c} />`;
export const disc = (cx, cy, r, c) => html`<circle cx=${cx} cy=${cy} r=${r} class=${c} />`;
export const text = (x, y, t, c = "", anchor = "start") =>
  html`<text x=${x} y=${y} class=${c} text-anchor=${anchor}>${t}</text>`;

/** A step that failed: its top falls away to where the wait begins. */
export function fell(x, y, w, h) {
  const over = Math.min(5.5, h * 0.6);
  return path(`M${x} ${y - over}L${x + w} ${y}V${y + h}H${x}z`, "f-fail");
}

/** A step that was lost: it is broken, and does not count. */
export const lost = (x, y, w, h) => html`<g>
  ${rect(x, y, w, h * 0.42, "f-fail")}${rect(x, y + h * 0.6, w, h * 0.4, "f-fail")}
</g>`;

/** A step that is about to be. */
export const ghost = (x, y, w, h) =>
  html`<rect x=${x} y=${y} width=${Math.max(2, w)} height=${Math.max(2, h)} class="l-wait l-15 dash" />`;

/** Textures: a backoff leans, a gate stands upright, a blocked run is a wall. Once on each page. */
export const textures = () => html`<svg width="0" height="0" aria-hidden="true" class="sr"><defs>
  <pattern id="p-wait" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">${line(0, 0, 0, 5, "l-wait l-15")}</pattern>
  <pattern id="p-park" width="5" height="8" patternUnits="userSpaceOnUse">${line(1.5, 0, 1.5, 8, "l-wait l-2")}</pattern>
  <pattern id="p-brick" width="8" height="6" patternUnits="userSpaceOnUse">${path("M0 .5H8M0 3.5H8M2 .5V3.5M6 3.5V6.5", "l-mad l-1")}</pattern>
</defs></svg>`;

/** @type {Record<string, () => any[]>} */
const SIGNS = {
  done: () => [rect(2, 14, 14, 2, "f-done"), disc(9, 8, 4.5, "f-done")],
  running: () => [rect(4.75, 2.75, 8.5, 13.25, "f-run")],
  failed: () => [fell(4, 7, 10, 9)],
  retrying: () => [rect(1, 12, 4, 4, "f-fail"), rect(6, 8, 4, 8, "f-fail"), ghost(11.6, 3.6, 4.4, 12)],
  backoff: () => [rect(1, 6, 3, 10, "f-fail"), rect(4, 6, 13, 10, "f-wait"), line(4, 6, 17, 6, "l-wait l-15")],
  gated: () => [path("M2.5 3v13M6.8 5v11M11.2 5v11M15.5 3v13", "l-wait l-2"), path("M1 8h16", "l-wait l-15")],
  ramping: () => [path("M2 16V12M6.5 16V10M11 16V6.5M15.5 16V2", "l-done l-2")],
  probing: () => [path("M2.5 3v13M15.5 3v13", "l-wait l-2"), disc(9, 9, 2.6, "f-dusk")],
  paused: () => [rect(3.5, 2, 4, 14, "f-plum"), rect(10.5, 2, 4, 14, "f-plum")],
  exhausted: () => [
    rect(1, 2, 16, 3, "f-mad"),
    rect(1, 12, 3, 4, "f-fail"),
    rect(5.3, 9, 3, 7, "f-fail"),
    rect(9.6, 7, 3, 9, "f-fail"),
    rect(14, 5, 3, 11, "f-fail"),
  ],
  dead: () => [
    rect(1.75, 4.75, 14.5, 11, "l-mad l-15"),
    path("M2 5l7 6 7-6", "l-mad l-15"),
    rect(1, 1, 16, 2, "f-mad"),
  ],
  blocked: () => [
    rect(1.75, 1.75, 14.5, 14.5, "l-mad l-15"),
    path("M2 6.5h14M2 11.5h14M9 2v4.5M5.5 6.5v5M12.5 6.5v5M9 11.5V16", "l-mad l-15"),
  ],
  compensated: () => [
    path("M2 3h5v5h5v5h4.5", "l-done l-2"),
    html`<circle cx="14.5" cy="6" r="2" class="l-done l-15" />`,
  ],
  incomplete: () => [path("M1 3.5h5.5v5H11", "l-mad l-2"), path("M11.3 10.8l5 5M16.3 10.8l-5 5", "l-mad l-2")],
  nobody: () => [html`<circle cx="9" cy="9" r="6.5" class="l-mad l-2 dash" />`, rect(2, 16, 14, 1.5, "f-mad")],
  lost: () => [
    rect(6.5, 2, 5, 5, "f-fail"),
    rect(6.5, 11, 5, 5, "f-fail"),
    path("M4 9.8l3-1.6 4 1.6 3-1.6", "l-fail l-15"),
  ],
  timer: () => [line(2, 9, 15, 9, "l-wait l-2"), path("M15 3.5v11", "l-wait l-2")],
  signal: () => [path("M3 4h12L9 14z", "f-ink")],
  child: () => [path("M4 2v9h5", "l-ink2 l-15"), rect(9, 8, 7, 6, "l-ink2 l-15")],
  operator: () => [disc(9, 5.5, 3.3, "f-plum"), path("M2.5 16.5c0-8 13-8 13 0z", "f-plum")],
  event: () => [disc(9, 9, 2, "f-ink3")],
  more: () => [rect(2, 3, 14, 2, "f-ink"), rect(2, 8, 14, 2, "f-ink"), rect(2, 13, 14, 2, "f-ink")],
  theme: () => [
    html`<circle cx="9" cy="9" r="6.5" class="l-ink l-15" />`,
    path("M9 2.5a6.5 6.5 0 0 0 0 13z", "f-ink"),
  ],
  find: () => [html`<circle cx="8" cy="8" r="5" class="l-ink l-15" />`, path("M12 12l4 4", "l-ink l-2")],
};

/**
 * A sign of 18 by 18. It always stands beside words.
 * @param {{name: string, size?: number}} props
 */
export const Sign = ({ name, size = 18 }) =>
  html`<svg width=${size} height=${size} viewBox="0 0 18 18" class="ico" aria-hidden="true">${(SIGNS[name] ?? SIGNS.event)()}</svg>`;

/** The mark of the program: three steps, and one that has risen. */
export const Mark = () => html`<svg width="26" height="26" viewBox="0 0 26 26" aria-hidden="true">
  ${rect(1, 19, 6, 6, "f-fail")}${rect(8.5, 14, 6, 11, "f-fail")}${rect(16, 9, 6, 16, "f-ink")}${disc(19, 4, 3.6, "f-done")}
</svg>`;

const STANDS = {
  retrying: "waits for the next attempt",
  backoff: "waits for the next attempt",
  running: "an attempt runs",
  gated: "waits at its gate",
  paused: "paused",
  exhausted: "out of attempts",
  nobody: "nobody can run it",
};

/**
 * Where a call stands in its budget, for a list. Columns are attempts, not time. Without a limit there
 * is no lintel; beyond what fits, the first steps, a break and the last ones are drawn.
 * @param {{failed: number, max?: number | null, state: string, w?: number, h?: number}} props
 */
export function Stair({ failed, max, state, w = 100, h = 28 }) {
  const label = `${failed} of ${max ?? "unlimited"} failures; ${STANDS[state] ?? state}`;
  const shown = max ?? Math.max(failed + 3, 6);
  const [base, top] = [h - 2, 5];
  const c = Math.min(11, (w - 4) / shown);
  if (c < 2.5) return html`<${LongStair} failed=${failed} max=${max} state=${state} w=${w} h=${h} label=${label} />`;
  const up = (i) => ((base - top) * Math.min(i, shown)) / shown;
  const steps = Array.from({ length: shown }, (_, k) => {
    const [i, x] = [k + 1, k * c];
    const y = base - up(i);
    if (i <= failed) return [rect(x, y, c * 0.62, up(i), "f-fail"), rect(x + c * 0.62, y, c * 0.38, up(i), "f-tint")];
    if (i === failed + 1) return next(state, x, y, c, up(i), base);
    return line(x + 1, y, x + c - 1, y, "l-rule2 l-1");
  });
  return html`<svg width=${w} height=${h} viewBox="0 0 ${w} ${h}" role="img" aria-label=${label}>
    ${line(0, base + 0.5, shown * c, base + 0.5, "l-rule2 l-1")}
    ${max && line(0, top - 2.5, shown * c, top - 2.5, state === "exhausted" ? "l-mad l-3" : "l-rule2 l-1")}${steps}
  </svg>`;
}

function next(state, x, y, c, h, base) {
  switch (state) {
    case "running":
      return rect(x + 0.75, y, c - 2, h, "f-run");
    case "gated":
      return [rect(x, y, c, h, "f-park"), line(x, y, x + c, y, "l-wait l-15")];
    case "paused":
      return [rect(x + 1, 5, 3, base - 5, "f-plum"), rect(x + 6, 5, 3, base - 5, "f-plum")];
    case "exhausted":
    case "nobody":
      return line(x + 1, y, x + c - 1, y, "l-rule2 l-1");
    default:
      return ghost(x + 0.75, y, c - 2, h);
  }
}

function LongStair({ failed, max, state, w, h, label }) {
  const [base, top, part] = [h - 2, 5, max ? Math.min(1, failed / max) : 0.8];
  const x = 4 + (w - 30) * part;
  const y = base - (base - top) * part;
  return html`<svg width=${w} height=${h} viewBox="0 0 ${w} ${h}" role="img" aria-label=${label}>
    ${line(0, base + 0.5, w, base + 0.5, "l-rule2 l-1")}
    ${max && line(0, top - 2.5, w, top - 2.5, state === "exhausted" ? "l-mad l-3" : "l-rule2 l-1")}
    ${path(`M0 ${base}V${base - 3}L${x} ${y}V${base}z`, "f-fail")}${rect(x / 2, top, 2, base - top, "f-page")}
    ${next(state, x + 2, y, 11, base - y, base)}
  </svg>`;
}

/** How much of something is used, with what is left. @param {{used: number, all: number, label: string, w?: number}} props */
export function Share({ used, all, label, w = 188 }) {
  const x = all ? Math.min(1, used / all) * (w - 4) : 0;
  return html`<svg width=${w} height="30" viewBox="0 0 ${w} 30" role="img" aria-label=${label}>
    ${rect(0, 10, x, 18, "f-fail")}${line(0, 28.5, w, 28.5, "l-rule2 l-1")}${rect(w - 2, 2, 2, 27, "f-rule2")}
  </svg>`;
}
