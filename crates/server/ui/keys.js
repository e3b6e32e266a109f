// The keyboard: letters lead somewhere or open a deed, and never act by themselves.
import { useEffect } from "./vendor/hooks.mjs";
import { go, to } from "./address.js";
import { isLive, setLive } from "./api.js";

/** Where `g` and a letter lead. @type {Record<string, string>} */
export const PLACES = {
  n: "now",
  i: "instances",
  b: "inbox",
  a: "activities",
  g: "gates",
  s: "schedules",
  w: "workers",
  l: "lab",
};

/** What keys do, for the list of them. @type {[string, string][]} */
export const KEYS = [
  ["/", "find an instance or a call"],
  ["g n, g i, g b, g a", "now, instances, inbox, activities"],
  ["g g, g s, g w, g l", "gates, schedules, workers, the policy lab"],
  ["j, k", "next and previous row"],
  ["enter", "open the row"],
  ["x", "select the row"],
  [".", "go to the actions"],
  ["r, p", "open the deed that retries or resumes, or the one that pauses or shuts"],
  ["space", "stop the page from changing, or go on"],
  ["t", "light or dark"],
  ["?", "this list"],
  ["esc", "leave a field, or close what is open"],
];

/** The deeds that a letter opens: the first of them that is there. @type {Record<string, string[]>} */
const DEEDS = {
  r: ["retry", "resume", "redrive", "run-resume", "schedule-resume", "kind-resume", "gate-auto", "gate-open"],
  p: ["pause", "run-pause", "schedule-pause", "kind-pause", "gate-shut"],
};

const rows = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-row]")]);

/** @param {number} step */
function move(step) {
  const all = rows();
  const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement?.closest("[data-row]")));
  const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** Opens a deed: chooses its tab, and leads to the reason. @param {string} [name] */
function deed(name) {
  const tab = name && document.querySelector(`[data-act="${name}"]`);
  if (name && !tab && !document.querySelector(`[data-only="${name}"]`)) return false;
  if (tab instanceof HTMLElement) tab.click();
  const form = document.getElementById("act");
  if (!form) return false;
  form.scrollIntoView({ block: "nearest" });
  requestAnimationFrame(() => document.getElementById("why")?.focus());
  return true;
}

/** @param {string} letter */
const open = (letter) => DEEDS[letter].some((name) => deed(name));

/** @param {EventTarget | null} target */
export const isTyping = (target) =>
  target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;

/**
 * @param {{find: () => void, theme: () => void, help: () => void, close: () => void}} does
 */
export function useKeys({ find, theme, help, close }) {
  useEffect(() => {
    let first = "";
    /** @param {KeyboardEvent} event */
    const pressed = (event) => {
      if (event.key === "Escape") {
        // A dialog closes with its field. Elsewhere the field is left, so that letters are keys again.
        const isOpen = document.querySelector("dialog[open]") !== null;
        if (!isOpen && isTyping(event.target)) /** @type {HTMLElement} */ (event.target).blur();
        return close();
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const place = first === "g" && PLACES[event.key];
      first = event.key === "g" ? "g" : "";
      if (place) return go(to(place));
      const row = document.activeElement?.closest("[data-row]");
      /** @type {Record<string, () => unknown>} */
      const does = {
        "/": find,
        "?": help,
        t: theme,
        j: () => move(1),
        k: () => move(-1),
        x: () => /** @type {HTMLElement | null} */ (row?.querySelector('input[type="checkbox"]'))?.click(),
        ".": () => deed(),
        r: () => open("r"),
        p: () => open("p"),
        Enter: () =>
          event.target === row && /** @type {HTMLElement | null} */ (row?.querySelector("a[href]"))?.click(),
        " ": () => event.target === document.body && (setLive(!isLive()), true),
      };
      const done = does[event.key]?.();
      if (event.key === "/" || (event.key === " " && done)) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [find, theme, help, close]);
}
