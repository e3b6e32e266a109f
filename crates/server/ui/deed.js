// Every action looks like this: what will happen, as a sentence; choices; what changes, before and after;
// why; the command that does the same; a button that names verb and object. Nothing happens before that
// button is pressed.
import { html } from "./vendor/html.js";
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import { ask, look, Problem } from "./api.js";
import { Command, Trouble } from "./parts.js";
import { because, many, TYPED } from "./words.js";

/**
 * @typedef {{
 *   id: string, title: string, sentence: string, button: string, grave?: boolean,
 *   changes?: [string, string, string][],
 *   fields?: Field[],
 *   command: (values: Record<string, any>) => string,
 *   request: (values: Record<string, any>) => {path: string, method?: string, body: any},
 *   after?: string, logged?: boolean, counts?: {count: number, noun: string},
 * }} Act
 * `counts` says to how many it is done: a dry run counts them again before, and a large number is typed.
 * @typedef {{name: string, label: string, hint?: string, kind?: "check" | "text" | "json" | "choice", initial?: any, choices?: [string, string][], required?: boolean}} Field
 */

/** @param {Act} act */
const initial = (act) =>
  Object.fromEntries(
    (act.fields ?? []).map((field) => [field.name, field.initial ?? (field.kind === "check" ? false : "")]),
  );

/** What a JSON field holds, or what is wrong with it. @param {string} text */
function parsed(text) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * Actions on one thing, one of which is chosen.
 * @param {{acts: Act[], label: string, chosen?: string, choose?: (id: string) => void}} props
 */
export function Deed({ acts, label, chosen, choose }) {
  const [mine, setMine] = useState(acts[0]?.id);
  const id = chosen ?? mine;
  const act = acts.find((it) => it.id === id) ?? acts[0];
  if (!act) return null;
  const pick = (next) => (choose ? choose(next) : setMine(next));
  const move = (event) => {
    const at = acts.indexOf(act);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = acts[(at + step + acts.length) % acts.length];
    pick(next.id);
    event.currentTarget.querySelector(`[data-act="${next.id}"]`)?.focus();
    event.preventDefault();
  };
  return html`<div class="deed" id="act" data-only=${acts.length > 1 ? null : act.id}>
    ${
      acts.length > 1 &&
      html`<div class="choices" role="tablist" aria-label=${label} onKeyDown=${move}>
      ${acts.map(
        (
          it,
        ) => html`<button type="button" role="tab" id=${`tab-${it.id}`} data-act=${it.id} aria-controls="deed" aria-selected=${it === act ? "true" : "false"}
        tabindex=${it === act ? 0 : -1} onClick=${() => pick(it.id)}>${it.title}</button>`,
      )}
    </div>`
    }
    <${Form} key=${act.id} act=${act} isTab=${acts.length > 1} />
  </div>`;
}

function Form({ act, isTab }) {
  const [values, setValues] = useState(() => initial(act));
  const [reason, setReason] = useState("");
  const [state, setState] = useState({ doing: false, answer: "", problem: /** @type {any} */ (null) });
  // To how many it is done: as many as are shown, or as a dry run found.
  const [found, setFound] = useState(/** @type {number | null} */ (null));
  const [typed, setTyped] = useState("");
  useEffect(() => setFound(null), [act.counts?.count]);
  const count = found ?? act.counts?.count ?? 0;
  const isCounted = count <= TYPED || typed.replaceAll(",", "") === String(count);
  // A repeat after an answer that was lost is the same request.
  const key = useMemo(
    () => `page-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`,
    [act.id, JSON.stringify(values), reason, count],
  );
  const set = (name, value) => setValues((before) => ({ ...before, [name]: value }));
  const isExplained = reason.trim() !== "";
  const wrong = (act.fields ?? []).map((field) => trouble(field, values[field.name])).find(Boolean);
  const answer = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (state.answer) answer.current?.focus();
  }, [state.answer]);
  const submit = async (event) => {
    event.preventDefault();
    if (!isExplained || wrong || !isCounted || state.doing) return;
    setState({ doing: true, answer: "", problem: null });
    try {
      const { path, method = "POST", body } = act.request(values);
      const more = act.counts ? await expected(path, body) : {};
      const told = await ask(path, {
        method,
        body: { ...body, ...more, reason: reason.trim() },
        key,
      });
      setState({ doing: false, answer: told.answer ?? told.id ?? "Done.", problem: null });
      look();
    } catch (problem) {
      setState({ doing: false, answer: "", problem });
    }
  };
  // It is done to as many as somebody saw on the button, or to none.
  const expected = async (path, body) => {
    const { count: now } = await ask(path, { method: "POST", body: { ...body, dry_run: true } });
    if (now === count) return { expect_count: now };
    setFound(now);
    setTyped("");
    throw new Problem(409, `It would be done to ${now.toLocaleString("en")} by now, not to ${count.toLocaleString("en")}. Look again.`);
  };
  const role = isTab
    ? { role: "tabpanel", id: "deed", "aria-labelledby": `tab-${act.id}` }
    : { id: "deed", "aria-label": act.button };
  return html`<div class="panel" ...${role}><form onSubmit=${submit}>
    <div><h3>${act.sentence}</h3>${(act.fields ?? []).map((field) => html`<${Choice} field=${field} value=${values[field.name]} set=${(value) => set(field.name, value)} />`)}</div>
    ${act.changes && html`<div><h4>What changes</h4>
      <dl class="becomes">${act.changes.map(([what, was, then]) => html`<div><dt>${what}</dt>
      <dd class="was">${was}</dd><dd class="to" aria-hidden="true">→</dd><dd class="then">
      <span class="sr">becomes </span>${then}</dd></div>`)}</dl></div>`}
    <div><h4>
      <label for="why">${act.logged ? "Reason, for the log of the server" : "Reason, kept with the history"}</label></h4>
      <input type="text" id="why" value=${reason} required autocomplete="off" maxlength="500" onInput=${(event) => setReason(event.target.value)} />
      ${count > TYPED && html`<label for="typed">These are more than ${TYPED}: type their number</label>
        <input type="text" id="typed" inputmode="numeric" value=${typed} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} />`}</div>
    <${Command} line=${because(act.command(values), act.logged ? "" : reason.trim())} />
    <div class="acts">
      <button type="submit" class=${act.grave ? "grave" : "primary"} disabled=${!isExplained || !!wrong || !isCounted || state.doing}>${state.doing ? "Asking" : act.counts ? `${act.title} ${many(count, act.counts.noun)}` : act.button}</button>
      ${!isExplained ? html`<p class="hint">Give a reason first.</p>` : wrong ? html`<p class="hint">${wrong}</p>` : !isCounted && html`<p class="hint">Type their number first.</p>`}</div>
    ${state.answer && html`<p class="answer" role="status" tabindex="-1" ref=${answer}>${state.answer}${act.after ? ` ${act.after}` : ""}</p>`}
    <${Trouble} problem=${state.problem} />
  </form></div>`;
}

/** What is wrong with a field. @param {Field} field @param {any} value */
function trouble(field, value) {
  if (field.required && value === "") return `${field.label} is missing.`;
  if (field.kind === "json" && value !== "") {
    const { wrong } = parsed(value);
    if (wrong) return `${field.label}: ${wrong}`;
  }
  return "";
}

/** The value of a JSON field. @param {string} text */
export const json = (text) => parsed(text).value;

function Choice({ field, value, set }) {
  const id = `field-${field.name}`;
  if (field.kind === "check") {
    return html`<label class="pick">
      <input type="checkbox" id=${id} checked=${value} onChange=${(event) => set(event.target.checked)} />
      <span>${field.label}${field.hint && html`<small>${field.hint}</small>`}</span></label>`;
  }
  if (field.kind === "choice") {
    return html`<div class="field"><label for=${id}>${field.label}</label>
      <select id=${id} value=${value} onChange=${(event) => set(event.target.value)}>
      ${field.choices.map(([name, says]) => html`<option value=${name} selected=${name === value}>${says}</option>`)}</select></div>`;
  }
  const input =
    field.kind === "json"
      ? html`<textarea id=${id} rows="3" value=${value} spellcheck=${false} onInput=${(event) => set(event.target.value)}></textarea>`
      : html`<input type="text" id=${id} value=${value} autocomplete="off" onInput=${(event) => set(event.target.value)} />`;
  return html`<div class="field">
    <label for=${id}>${field.label}</label>${field.hint && html`<small>${field.hint}</small>`}${input}</div>`;
}
