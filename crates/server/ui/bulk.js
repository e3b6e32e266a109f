// One action on many: a dry run counts first, and what is done then is done to that many or not at all.
import { html } from "./vendor/html.js";
import { useEffect, useMemo, useState } from "./vendor/hooks.mjs";
import { amend, forgetDraft, place } from "./address.js";
import { ask, look, useAsk } from "./api.js";
import { isTyping } from "./keys.js";
import { Command, Trouble } from "./parts.js";
import { because, many, TYPED } from "./words.js";

/**
 * An action. `refused` says why it is not offered here; without `command` no command does the same.
 * @typedef {{id: string, title: string, says: string, body: any, command: string, noun: string, refused: string, tab?: string, grave?: boolean, inverse?: string}} Choice
 * `inverse` is the action that takes it back.
 */

/**
 * @param {{choices: Choice[], close: () => void}} props
 */
export function Bulk({ choices, close }) {
  // What is half filled stands in the address.
  const [id, setId] = useState(() => place().query.get("do") ?? choices[0].id);
  const choice = choices.find((it) => it.id === id) ?? choices[0];
  const [spread, setSpread] = useState(() => place().query.get("over") ?? "30");
  const [reason, setReason] = useState(() => place().query.get("why") ?? "");
  const [typed, setTyped] = useState("");
  const [found, setFound] = useState(/** @type {{count: number, first: string[]} | null} */ (null));
  const [job, setJob] = useState("");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [doing, setDoing] = useState(false);
  const body = { ...choice.body, ...(spread === "0" ? {} : { spread_ms: Number(spread) * 1_000 }) };
  const key = useMemo(
    () => `page-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`,
    [id, spread, reason, found],
  );
  useEffect(() => {
    // The first Escape in a field leaves the field.
    const pressed = (/** @type {KeyboardEvent} */ event) =>
      event.key === "Escape" && !isTyping(event.target) && !document.querySelector("dialog") && close();
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [close]);
  useEffect(() => {
    if (job) return;
    const write = () => amend({ do: choice.id, why: reason || null, over: spread === "30" ? null : spread });
    const timer = setTimeout(write, 300);
    return () => clearTimeout(timer);
  }, [choice.id, reason, spread, job]);
  const chosen = (next) => {
    setId(next);
    setFound(null);
    setProblem(null);
  };
  const run = async (more, done) => {
    setDoing(true);
    setProblem(null);
    try {
      done(await ask("bulk", { method: "POST", body: { ...body, ...more }, key: more.dry_run ? undefined : key }));
    } catch (wrong) {
      setProblem(wrong);
    }
    setDoing(false);
  };
  const dry = () => run({ dry_run: true }, setFound);
  const act = (event) => {
    event.preventDefault();
    if (!ready) return;
    run({ expect_count: found?.count, reason: reason.trim() }, (told) => {
      setJob(told.id);
      forgetDraft(["sel", "do"]);
      look();
    });
  };
  const needsCount = found !== null && found.count > TYPED;
  const ready =
    !choice.refused &&
    found !== null &&
    found.count > 0 &&
    reason.trim() !== "" &&
    (!needsCount || typed.replaceAll(",", "") === String(found.count)) &&
    !doing;
  const back = choices.find((it) => it.id === choice.inverse);
  const goBack = () => {
    setJob("");
    setReason("");
    setTyped("");
    chosen(back?.id);
    // Calls that are paused do not retry: the list of those that did would leave them out.
    amend({ do: back?.id, retrying: null });
  };
  if (job)
    return html`<div class="deed" id="act"><${Progress} id=${job} />
      <div class="acts">${back && html`<button type="button" class="inverse" onClick=${goBack}>${back.title} these ${back.noun}s</button>`}<button type="button" class="bare" onClick=${close}>Close</button></div></div>`;
  const line = `${choice.command}${spread === "0" ? "" : ` --spread ${spread}s`}`;
  return html`<form class="deed" id="act" onSubmit=${act} aria-label="Act on many"><h2 class="sr">Act on many</h2>
    <div class="choices" role="group" aria-label="Action">${choices.map((it) => html`<button type="button" data-act=${it.id} aria-pressed=${it === choice ? "true" : "false"} aria-selected=${null} class=${it === choice ? "on" : ""} onClick=${() => chosen(it.id)}>${it.tab ?? it.title}</button>`)}</div>
    <div><h3>${choice.says}</h3>
      ${choice.refused && html`<p class="trouble" id="refused" role="status">${choice.refused}</p>`}
      <div class="field"><label for="bulk-spread">Begin over</label>
        <select id="bulk-spread" value=${spread} onChange=${(event) => setSpread(event.target.value)}>
        ${[
          ["0", "no time: all at once"],
          ["30", "30 s"],
          ["60", "1 m"],
          ["300", "5 m"],
        ].map(
          ([ms, says]) => html`<option value=${ms} selected=${ms === spread}>${says}</option>`,
        )}</select></div></div>
    <div><h4>What changes</h4>${found ? html`<p role="status">
      <b>${many(found.count, choice.noun)}</b> match now${found.first.length ? `: ${found.first.slice(0, 5).join(", ")}${found.count > 5 ? " and so on" : ""}` : "."}</p>` : html`<p class="quiet">A dry run counts, and changes nothing.</p>`}
      <button type="button" onClick=${dry} disabled=${doing || !!choice.refused} aria-describedby=${choice.refused ? "refused" : null}>${found ? "Count again" : "Dry run"}</button></div>
    <div><h4><label for="why">Reason, kept with all of them</label></h4>
      <input type="text" id="why" value=${reason} required autocomplete="off" onInput=${(event) => setReason(event.target.value)} />
      ${needsCount && html`<label for="bulk-count">These are more than ${TYPED}: type their number</label>
        <input type="text" id="bulk-count" inputmode="numeric" value=${typed} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} />`}</div>
    ${choice.refused ? "" : choice.command ? html`<${Command} line=${because(line, reason.trim())} />` : html`<p class="quiet">No command does the same: the command line cannot choose by all of these conditions.</p>`}
    <div class="acts">
      <button type="submit" class=${choice.grave ? "grave" : "primary"} disabled=${!ready} aria-describedby=${choice.refused ? "refused" : null}>${choice.title} ${found ? many(found.count, choice.noun) : `${choice.noun}s`}</button>
      <button type="button" class="bare" onClick=${close}>Leave them alone</button></div>
    <${Trouble} problem=${problem} />
  </form>`;
}

/** How far a job has come. @param {{id: string}} props */
export function Progress({ id }) {
  const [every, setEvery] = useState(1_000);
  const { data, problem } = useAsk(`bulk/${encodeURIComponent(id)}`, { every });
  const [told, setTold] = useState("");
  const isOver = !!data && data.closed_at_ms !== null;
  useEffect(() => setEvery(isOver ? 60_000 : 1_000), [isOver]);
  const stop = async () => {
    try {
      setTold((await ask(`bulk/${encodeURIComponent(id)}`, { method: "DELETE" })).answer);
    } catch (wrong) {
      setTold(wrong instanceof Error ? wrong.message : String(wrong));
    }
  };
  if (!data) return html`<div><p class="quiet">The job is stored.</p><${Trouble} problem=${problem} /></div>`;
  return html`<div><h3 role="status">${data.state === "done" ? "Done" : `The job is ${data.state}`}: ${data.changed} of ${data.matched} changed, ${data.refused} refused.</h3></div>
    ${data.error && html`<p class="trouble">${data.error}</p>`}
    ${data.listed.length > 0 && html`<div><h4>Refused</h4>
      <ul class="refused">${data.listed.slice(0, 20).map((one) => html`<li>
      <span class="id">${one.call}</span> ${one.why}</li>`)}</ul></div>`}
    <${Command} line=${`resurgam bulk show ${id}`} />
    ${!isOver && html`<div class="acts"><button type="button" onClick=${stop}>Stop the job</button></div>`}
    ${told && html`<p class="hint" role="status">${told}</p>`}`;
}
