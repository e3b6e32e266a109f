// Every action looks like this: what will happen, as a sentence; choices; what changes, before and after;
// why; the command that does the same; a button that names verb and object. Nothing happens before that
// button is pressed. What is half filled stands in the address, so that a link shows it to a colleague;
// what came of it stays, and offers what takes it back.
import { html } from "./vendor/html.js";
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import { amend, forgetDraft, place, usePlace } from "./address.js";
import { ask, look, Problem } from "./api.js";
import { Progress } from "./bulk.js";
import { Command, Trouble } from "./parts.js";
import { because, many, TYPED } from "./words.js";

/**
 * @typedef {{
 *   id: string, title: string, sentence: string, button: string, grave?: boolean,
 *   changes?: [string, string, string][],
 *   fields?: Field[],
 *   command: (values: Record<string, any>) => string,
 *   request: (values: Record<string, any>) => {path: string, method?: string, body: any},
 *   after?: string, logged?: boolean, counts?: {count: number, noun: string}, inverse?: Inverse,
 *   preview?: (values: Record<string, any>) => any,
 * }} Act
 * `counts` says to how many it is done: a dry run counts them again before, and a large number is typed.
 * @typedef {{name: string, label: string, hint?: string, kind?: "check" | "text" | "json" | "choice", initial?: any, choices?: [string, string][], required?: boolean}} Field
 * @typedef {{title: string, id?: string, values?: Record<string, any>, href?: string}} Inverse
 * What takes it back: another action on the same, or a place where one is. What `preview` draws changes with what is filled in.
 */

/** What the fields of an action hold at first: what the address says, or what is usual. @param {Act} act @param {URLSearchParams} query */
const initial = (act, query) =>
  Object.fromEntries(
    (act.fields ?? []).map((field) => {
      const given = query.get(`f-${field.name}`);
      const usual = field.initial ?? (field.kind === "check" ? false : "");
      return [field.name, given === null ? usual : field.kind === "check" ? given === "true" : given];
    }),
  );

/** What of an action is filled in, as it stands in the address. @param {Act} act */
function draft(act, values, reason) {
  const fields = (act.fields ?? []).map((field) => {
    const isUsual = values[field.name] === (field.initial ?? (field.kind === "check" ? false : ""));
    return [`f-${field.name}`, isUsual ? null : String(values[field.name])];
  });
  return { why: reason || null, ...Object.fromEntries(fields) };
}

/** What the address says of the action, to tell whether it has become that of another link. */
const drafted = () => JSON.stringify([...place().query].filter(([name]) => name === "why" || name.startsWith("f-")).sort());

/** How long after the last key the address says what is filled in, in milliseconds: browsers refuse to be told all the time. */
const SETTLED = 300;

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
 * @param {{acts: Act[], label: string, done?: () => void}} props
 */
export function Deed({ acts, label, done }) {
  const { query } = usePlace();
  // What somebody has chosen is not exchanged for something else while they write a reason.
  const wanted = query.get("act");
  const act = wanted ? acts.find((it) => it.id === wanted) : acts[0];
  const [result, setResult] = useState(/** @type {{answer: string, job: string, act: Act} | null} */ (null));
  const answer = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (result) answer.current?.focus();
  }, [result]);
  // A link that is opened while this one is shown fills it in anew.
  const [written, epoch] = [useRef(drafted()), useRef(0)];
  if (written.current !== drafted()) {
    written.current = drafted();
    epoch.current += 1;
  }
  const write = (change) => {
    amend(change);
    written.current = drafted();
  };
  const pick = (id, values = {}) => {
    setResult(null);
    forgetDraft(["why"]);
    write({ act: id, ...Object.fromEntries(Object.entries(values).map(([name, value]) => [`f-${name}`, String(value)])) });
    if (Object.keys(values).length) epoch.current += 1;
  };
  /** @param {any} told @param {Act} of */
  const finish = (told, of) => {
    forgetDraft();
    written.current = drafted();
    epoch.current += 1;
    setResult({ answer: told.answer ?? (told.id ? "" : "Done."), job: of.counts ? (told.id ?? "") : "", act: of });
    done?.();
    look();
  };
  const move = (event) => {
    const at = acts.findIndex((it) => it === act);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = acts[(at + step + acts.length) % acts.length];
    pick(next.id);
    event.currentTarget.querySelector(`[data-act="${next.id}"]`)?.focus();
    event.preventDefault();
  };
  if (!acts.length && !result) return null;
  const inverse = result?.act.inverse;
  const canGoBack = inverse && !!(inverse.href || acts.some((it) => it.id === inverse.id));
  return html`<div class="deed" id="act" data-only=${acts.length === 1 ? acts[0].id : null}>
    ${
      result &&
      html`<div class="result" tabindex="-1" ref=${answer}><p class="answer" role="status">${result.answer}${result.act.after ? ` ${result.act.after}` : ""}</p>
      ${result.job && html`<${Progress} id=${result.job} />`}
      ${canGoBack && html`<p class="acts">${inverse.href ? html`<a class="btn" href=${inverse.href}>${inverse.title}</a>` : html`<button type="button" class="inverse" onClick=${() => pick(inverse.id ?? "", inverse.values)}>${inverse.title}</button>`}</p>`}</div>`
    }
    ${
      acts.length > 1 &&
      html`<div class="choices" role="tablist" aria-label=${label} onKeyDown=${move}>
      ${acts.map(
        (
          it,
        ) => html`<button type="button" role="tab" id=${`tab-${it.id}`} data-act=${it.id} aria-controls="deed" aria-selected=${it === act ? "true" : "false"}
        tabindex=${it === (act || acts[0]) ? 0 : -1} onClick=${() => pick(it.id)}>${it.title}</button>`,
      )}
    </div>`
    }
    ${!act && acts.length > 0 && html`<p class="trouble" role="status">What was chosen here cannot be done any more, or not now. Choose again.</p>`}
    ${act && html`<${Form} key=${`${act.id} ${epoch.current}`} act=${act} isTab=${acts.length > 1} write=${write} finish=${finish} />`}
  </div>`;
}

function Form({ act, isTab, write, finish }) {
  const [values, setValues] = useState(() => initial(act, place().query));
  const [reason, setReason] = useState(() => place().query.get("why") ?? "");
  const [state, setState] = useState({ doing: false, problem: /** @type {any} */ (null) });
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
  const isTouched = useRef(false);
  useEffect(() => {
    if (!isTouched.current) return;
    const timer = setTimeout(() => write({ act: act.id, ...draft(act, values, reason) }), SETTLED);
    return () => clearTimeout(timer);
  }, [values, reason]);
  const tell = (next) => {
    isTouched.current = true;
    setReason(next);
  };
  const set = (name, value) => {
    isTouched.current = true;
    setValues((before) => ({ ...before, [name]: value }));
  };
  const isExplained = reason.trim() !== "";
  const wrong = (act.fields ?? []).map((field) => trouble(field, values[field.name])).find(Boolean);
  const submit = async (event) => {
    event.preventDefault();
    if (!isExplained || wrong || !isCounted || state.doing) return;
    setState({ doing: true, problem: null });
    try {
      const { path, method = "POST", body } = act.request(values);
      const more = act.counts ? await expected(path, body) : {};
      const why = reason.trim();
      // What is deleted has no body to say why in.
      const told =
        method === "DELETE"
          ? await ask(`${path}?reason=${encodeURIComponent(why)}`, { method })
          : await ask(path, { method, body: { ...body, ...more, reason: why }, key });
      isTouched.current = false;
      setState({ doing: false, problem: null });
      finish(told ?? {}, act);
    } catch (problem) {
      setState({ doing: false, problem });
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
    ${act.preview && html`<div>${act.preview(values)}</div>`}
    ${act.changes && html`<div><h4>What changes</h4>
      <dl class="becomes">${act.changes.map(([what, was, then]) => html`<div><dt>${what}</dt>
      <dd class="was">${was}</dd><dd class="to" aria-hidden="true">→</dd><dd class="then">
      <span class="sr">becomes </span>${then}</dd></div>`)}</dl></div>`}
    <div><h4>
      <label for="why">${act.logged ? "Reason, for the log of the server" : "Reason, kept with the history"}</label></h4>
      <input type="text" id="why" value=${reason} required autocomplete="off" maxlength="500" onInput=${(event) => tell(event.target.value)} />
      ${count > TYPED && html`<label for="typed">These are more than ${TYPED}: type their number</label>
        <input type="text" id="typed" inputmode="numeric" value=${typed} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} />`}</div>
    <${Command} line=${because(act.command(values), act.logged ? "" : reason.trim())} />
    <div class="acts">
      <button type="submit" class=${act.grave ? "grave" : "primary"} disabled=${!isExplained || !!wrong || !isCounted || state.doing}>${state.doing ? "Asking" : act.counts ? `${act.title} ${many(count, act.counts.noun)}` : act.button}</button>
      ${!isExplained ? html`<p class="hint">Give a reason first.</p>` : wrong ? html`<p class="hint">${wrong}</p>` : !isCounted && html`<p class="hint">Type their number first.</p>`}</div>
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
