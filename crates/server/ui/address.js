// Where the page is: everything that somebody chose to look at stands behind the `#` of the address, so
// that a copied address shows the same. `#/instances?status=running` is the view `instances` with a
// filter; `#/call/UID.RUN.SEQ` is about one thing.
import { useEffect, useState } from "./vendor/hooks.mjs";

/** @typedef {{view: string, name: string, query: URLSearchParams}} Place */

/** @returns {Place} */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...name] = path.split("/");
  return { view: view || "now", name: decoded(name.join("/")), query: new URLSearchParams(query ?? "") };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The address of a view.
 * @param {string} view
 * @param {string | null} [name]
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 */
export function to(view, name, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== false && value != null);
  const asked = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ""}${asked ? `?${asked}` : ""}`;
}

/** @param {string} href */
export function go(href) {
  location.hash = href;
}

/**
 * Has the address say something else, without a new place to go back to.
 * @param {Record<string, string | number | boolean | null | undefined>} change
 */
export function amend(change) {
  const { view, name, query } = place();
  const now = { ...Object.fromEntries(query), ...change };
  history.replaceState(null, "", to(view, name, now));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The place, and a new one whenever it changes. */
export function usePlace() {
  const [now, set] = useState(place);
  useEffect(() => {
    const changed = () => set(place());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return now;
}

/** Names in the address that are about an action and not about what is shown. */
const DRAFT = ["act", "do", "why", "over", "sel"];
const isDraft = (name) => DRAFT.includes(name) || name.startsWith("f-");

/** What is shown, without what somebody is about to do to it. @param {URLSearchParams} query */
export const filters = (query) => new URLSearchParams([...query].filter(([name]) => !isDraft(name))).toString();

/** Has the address forget an action that is done or given up. */
export function forgetDraft(kept = /** @type {string[]} */ ([])) {
  const names = [...place().query.keys()].filter((name) => isDraft(name) && !kept.includes(name));
  if (names.length) amend(Object.fromEntries(names.map((name) => [name, null])));
}
