// Lists that stand still while somebody points at them, and lists of any length of which only what is near
// the window is drawn.
import { html } from "./vendor/html.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import { Sign } from "./shapes.js";
import { many } from "./words.js";

/** After a finger was lifted a list stands still for this time, in milliseconds: the next tap may follow. */
const FINGER = 6_000;

let touchedAt = -Infinity;
for (const name of ["touchstart", "touchmove", "touchend"])
  addEventListener(name, () => (touchedAt = performance.now()), { passive: true });

/** Whether rows of a list must not move now. @param {HTMLElement | null} box */
const isHeld = (box) =>
  box !== null &&
  (box.matches(":hover") || box.contains(document.activeElement) || performance.now() - touchedAt < FINGER);

/** How many rows are not where they would be. @param {any[]} shown @param {any[]} there */
function difference(shown, there) {
  const [before, after] = [new Set(shown), new Set(there)];
  const stay = shown.filter((key) => after.has(key));
  const order = there.filter((key) => before.has(key));
  const moved = stay.filter((key, i) => key !== order[i]).length;
  return moved + (shown.length - stay.length) + (there.length - order.length);
}

/**
 * The rows of a list. Values change in place; rows come, go and move when nobody points at the list, has the
 * focus in it or a finger on it, and otherwise when somebody asks for it. A row that is left over has `gone`.
 * @template T
 * @param {T[]} items as they are now
 * @param {(item: T) => string} key
 * @param {{epoch?: number}} [how] when `epoch` is another one, somebody has asked for more, and gets it
 * @returns {{rows: (T & {gone?: boolean})[], changed: number, show: () => void, box: any}}
 */
export function useSteady(items, key, { epoch = 0 } = {}) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const kept = useRef(/** @type {any[] | null} */ (null));
  const [, again] = useState(0);
  const asked = useRef(epoch);
  const shown = kept.current ?? [];
  if (!shown.length || asked.current !== epoch || !isHeld(box.current)) kept.current = items;
  else {
    const fresh = new Map(items.map((item) => [key(item), item]));
    kept.current = shown.map((row) => fresh.get(key(row)) ?? { ...row, gone: true });
  }
  asked.current = epoch;
  const show = () => {
    kept.current = items;
    again((n) => n + 1);
  };
  const rows = kept.current ?? [];
  return { rows, changed: rows === items ? 0 : difference(rows.map(key), items.map(key)), show, box };
}

/** What collects behind a list that stands still. It takes no room, so that it moves no row itself. */
export const Fresh = ({ changed, show }) =>
  html`<div class="freshbar" role="status">${
    changed > 0 &&
    html`<button type="button" class="fresh" onClick=${show}><${Sign} name="retrying" size=${15} />${many(changed, "row")} changed, show ${changed === 1 ? "it" : "them"}</button>`
  }</div>`;

/**
 * Something that grows, which stands still while somebody points at it or has the focus in it.
 * @template {Record<string, any>} T
 * @param {T} now what it is by now; another object when it has changed
 * @returns {{value: T, isOld: boolean, show: () => void, box: any}}
 */
export function useStill(now) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const kept = useRef(now);
  const [, again] = useState(0);
  if (!isHeld(box.current)) kept.current = now;
  const show = () => {
    kept.current = now;
    again((n) => n + 1);
  };
  const isOld = JSON.stringify(Object.values(kept.current).map(extent)) !== JSON.stringify(Object.values(now).map(extent));
  return { value: kept.current, isOld, show, box };
}

/** @param {any} value */
const extent = (value) => (Array.isArray(value) ? value.length : value);

/** As much above and below the window is drawn as well, in pixels. */
const NEAR = 1_200;

/**
 * Something long in parts, of which those near the window are drawn. The others keep their height, so that
 * nothing moves: as it was measured, or as it is guessed. A part with the focus in it stays.
 * @param {{count: number, guess: number, part: (name: number) => any, name?: (index: number) => number, rows?: number}} props
 * `name` is what a part keeps when others come before it; `rows` makes each the body of a table with so many columns
 */
export function Parts({ count, guess, part, name = (index) => index, rows }) {
  const [near, set] = useState(() => new Set([name(0), name(1)]));
  const heights = useRef(/** @type {Map<number, number>} */ (new Map()));
  const observer = useMemo(
    () =>
      new IntersectionObserver(
        (entries) =>
          set((before) => {
            const next = new Set(before);
            for (const { target, isIntersecting } of entries) {
              const it = Number(/** @type {HTMLElement} */ (target).dataset.part);
              if (isIntersecting) next.add(it);
              else if (!target.contains(document.activeElement)) next.delete(it);
            }
            return next.size === before.size && [...next].every((it) => before.has(it)) ? before : next;
          }),
        { rootMargin: `${NEAR}px` },
      ),
    [],
  );
  useEffect(() => () => observer.disconnect(), []);
  return Array.from({ length: count }, (_, i) => {
    const it = name(i);
    return html`<${OnePart} key=${it} name=${it} observer=${observer} heights=${heights.current} guess=${guess} rows=${rows}>${near.has(it) ? part(it) : null}<//>`;
  });
}

function OnePart({ name, observer, heights, guess, rows, children }) {
  const hung = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const element = hung.current;
    observer.observe(element);
    return () => observer.unobserve(element);
  }, []);
  const isDrawn = children !== null;
  useLayoutEffect(() => {
    const height = isDrawn && hung.current?.offsetHeight;
    if (height) heights.set(name, height);
  });
  const gap = { height: `${heights.get(name) ?? guess}px` };
  if (rows)
    return html`<tbody ref=${hung} data-part=${name}>${isDrawn ? children : html`<tr aria-hidden="true"><td colspan=${rows} style=${gap}></td></tr>`}</tbody>`;
  return html`<div ref=${hung} data-part=${name} role="presentation" style=${isDrawn ? null : gap}>${children}</div>`;
}
