// Payloads: folded, as text and never as anything else, with a way to copy or to keep them. Whatever is in
// them is made into text nodes, so markup of somebody else stays what it is: text.
import { html } from "./vendor/html.js";
import { useState } from "./vendor/hooks.mjs";
import { download } from "./api.js";
import { copied } from "./parts.js";
import { size } from "./words.js";

/** As much as is laid out at once. */
const SHOWN = 20_000;

/** The way to a payload that was left out because it is large. @param {any} value */
const elsewhere = (value) => value?.$payload?.href;

/**
 * @param {{title: string, value: any, name: string, open?: boolean}} props
 */
export function Payload({ title, value, name, open }) {
  const [whole, set] = useState(/** @type {string | null} */ (null));
  const [all, setAll] = useState(false);
  const [trouble, setTrouble] = useState("");
  if (value === undefined || value === null) return null;
  const href = elsewhere(value);
  const text = whole ?? (href ? "" : JSON.stringify(value, null, 2));
  const bytes = value?.$payload?.bytes ?? new Blob([JSON.stringify(value)]).size;
  const fetched = async () => {
    try {
      const body = await download(href);
      set(body);
      return body;
    } catch (error) {
      setTrouble(String(error));
      return "";
    }
  };
  const keep = async () => {
    const body = href ? (whole ?? (await fetched())) : JSON.stringify(value);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([body], { type: "application/octet-stream" }));
    link.download = `${name}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  if (value?.$payload?.hidden) return html`<p class="pay quiet">${title}: ${size(bytes)}, hidden from this token</p>`;
  return html`<details class="pay" open=${open}>
    <summary>${title} <small>${size(bytes)}</small></summary>
    ${href && whole === null && html`<p class="quiet">Too large for this page. <button type="button" onClick=${fetched}>Show ${size(bytes)}</button></p>`}
    ${text !== "" && html`<pre tabindex="0">${all ? text : text.slice(0, SHOWN)}</pre>`}
    ${text.length > SHOWN && !all && html`<p class="quiet">The first ${size(SHOWN)} of it. <button type="button" onClick=${() => setAll(true)}>Show all</button></p>`}
    ${trouble && html`<p class="trouble" role="alert">${trouble}</p>`}
    <p class="acts">
      <button type="button" class="bare" onClick=${() => copied(text)} disabled=${text === ""}>Copy</button>
    <button type="button" class="bare" onClick=${keep}>Download</button></p>
  </details>`;
}
