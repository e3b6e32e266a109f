// Pieces that several views are made of.
import { html } from "./vendor/html.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.mjs";
import { Sign } from "./shapes.js";
import { from, moment, near } from "./words.js";

/** A part of a view with its heading. */
export const Part = ({
  title,
  says,
  flat,
  id,
  children,
}) => html`<section class=${flat ? "flat" : ""} id=${id} aria-label=${title}>
  <div class="side"><h2>${title}</h2>${says && html`<p>${says}</p>`}</div>
  <div>${children}</div>
</section>`;

/** An id that can be copied. @param {{id: string, href?: string, title?: string}} props */
export function Id({ id, href, title }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await copied(id);
    set(true);
  };
  return html`<span class="ided">${href ? html`<a class="id" href=${href}>${id}</a>` : html`<span class="id">${id}</span>`}
    <button type="button" class="copy" onClick=${copy} onBlur=${() => set(false)} aria-label="Copy ${title ?? id}">${done ? "copied" : "copy"}</button></span>`;
}

/** Puts a text where it can be pasted from. The clipboard is there on this machine and with TLS only. @param {string} text */
export async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** The command that does the same. @param {{line: string}} props */
export function Command({ line }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await copied(line);
    set(true);
  };
  return html`<div class="cli"><pre>${line}</pre><button type="button" onClick=${copy} onBlur=${() => set(false)}
    aria-label="Copy the command">${done ? "Copied" : "Copy"}</button></div>`;
}

/** A time: how long ago or in how long, with the time itself. @param {{at?: number | null, now: number}} props */
export const Time = ({ at, now }) =>
  at == null
    ? html`<span class="quiet">–</span>`
    : html`<time datetime=${new Date(at).toISOString()} title=${moment(at)}>${from(at, now)}<span class="at">${near(at, now)}</span></time>`;

/** What is to be read where nothing is. */
export const Empty = ({ children }) => html`<p class="say empty">${children}</p>`;

/** What went wrong. It is read aloud. @param {{problem: import("./api.js").Problem | null}} props */
export const Trouble = ({ problem }) =>
  problem && problem.status !== 401
    ? html`<p class="trouble" role="alert">
      <${Sign} name="incomplete" /> <span>${problem.message}${problem.code && html` <a href="../api/v1/errors/${problem.code}">${problem.code}</a>`}</span></p>`
    : null;

/** What is there while the first answer is on its way. */
export const Wait = ({ problem }) =>
  problem
    ? html`<${Trouble} problem=${problem} />`
    : html`<p class="quiet asking" aria-busy="true">Asking the server.</p>`;

/** The legend of a drawing. @param {{of: [string, string][]}} props */
export const Key = ({ of }) =>
  html`<div class="key">${of.map(([name, says]) => html`<span>
    <${Sign} name=${name} size=${16} />${says}</span>`)}</div>`;

/** The width of an element, and a reference to hang on it. @returns {[any, number]} */
export function useWidth() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => set(Math.floor(element.clientWidth));
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  return [box, width];
}

/** The title of the window. @param {string} title */
export function useTitle(title) {
  useEffect(() => {
    document.title = title ? `${title} · Resurgam` : "Resurgam";
  }, [title]);
}
