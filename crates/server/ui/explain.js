// A policy that nobody has set yet: what it would do, beside the one that decides now.
import { html } from "./vendor/html.js";
import { useEffect, useState } from "./vendor/hooks.mjs";
import { ask } from "./api.js";
import { Band } from "./band.js";
import { Sign } from "./shapes.js";

/** How long after the last key the server is asked, in milliseconds. */
const SETTLED = 300;

/**
 * What the server says of a policy; null while that is not known.
 * @param {"explain" | "check" | "convert" | "what-if"} question @param {any} body nothing is asked while it is null
 * @returns {{told: any, refused: any, missing: boolean, problem: any}}
 */
export function usePolicy(question, body) {
  const text = body && JSON.stringify(body);
  const [state, set] = useState({ told: null, refused: null, missing: false, problem: /** @type {any} */ (null) });
  useEffect(() => {
    if (!text) return;
    const control = new AbortController();
    const timer = setTimeout(async () => {
      const nothing = { told: null, refused: null, missing: false, problem: null };
      try {
        const told = await ask(`policies/${question}`, { method: "POST", body: JSON.parse(text), signal: control.signal });
        set({ ...nothing, told });
      } catch (error) {
        if (control.signal.aborted) return;
        const problem = /** @type {any} */ (error);
        const isMissing = problem.status === 404 || problem.status === 405;
        // What is wrong with a policy, and where, is an answer of its own.
        const { policy, from } = JSON.parse(text);
        const asked = problem.status === 422 && ask("policies/check", { method: "POST", body: { policy, from }, signal: control.signal });
        const refused = asked ? await asked.catch(() => null) : null;
        if (control.signal.aborted) return;
        if (refused?.errors?.length) set({ ...nothing, refused });
        else set({ ...nothing, missing: isMissing, problem: isMissing ? null : problem });
      }
    }, SETTLED);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [question, text]);
  return state;
}

/** A policy out of its text; nothing where that is not JSON. @param {string} text */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What is said where the server cannot explain policies. */
export const NOT_HERE = "This server does not explain policies yet. The command line does: resurgam policy explain policy.json.";

/** The delays of an explanation as the curve draws them. @param {any} told */
export function steps(told) {
  const [schedule] = told?.schedules ?? [];
  const of = (attempt) => ({
    failure: attempt.attempt - 1,
    low_ms: attempt.delay_ms.min,
    middle_ms: attempt.delay_ms.p50,
    high_ms: attempt.delay_ms.max,
  });
  return {
    delays: (schedule?.attempts ?? []).map(of),
    more: schedule?.more ?? false,
    ends_by: schedule?.max_attempts === (schedule?.attempts.length ?? 0) + 1 ? "max_attempts" : "max_elapsed",
  };
}

/** What is wrong with a policy, and where. @param {{found: {code: string, path: string, message: string, line?: number}[], sign: string}} props */
export const Findings = ({ found, sign }) =>
  found.length
    ? html`<ul class="findings">${found.map((it) => html`<li><${Sign} name=${sign} size=${16} /><p><b>${it.code}</b> ${it.path && html`<code>${it.path}</code> `}${it.message}${it.line ? ` (line ${it.line})` : ""}</p></li>`)}</ul>`
    : null;

/**
 * What a policy that somebody writes would do, beside the one that decides now.
 * @param {{text: string, before: any}} props
 */
export function Preview({ text, before }) {
  const body = (policy) => ({ policy });
  const next = parsed(text);
  const now = usePolicy("explain", body(before));
  const isOther = text.replaceAll(/\s/g, "") !== JSON.stringify(before);
  const then = usePolicy("explain", isOther && next !== undefined ? body(next) : null);
  if (now.missing || then.missing) return html`<p class="quiet">${NOT_HERE}</p>`;
  const told = isOther ? then.told : null;
  return html`<h4>What it does</h4>
    ${now.told && html`<p><span class="quiet">now: </span>${now.told.sentence}</p>`}
    ${isOther && then.refused && html`<${Findings} found=${then.refused.errors} sign="incomplete" />`}
    ${isOther && then.problem && html`<p class="trouble">${then.problem.message}</p>`}
    ${told && html`<p aria-live="polite"><span class="quiet">then: </span><b>${told.sentence}</b></p><${Findings} found=${told.lints} sign="failed" />`}
    ${(told ?? now.told) && html`<${Band} delays=${steps(told ?? now.told)} attempts=${[]} failures=${0} max=${(told ?? now.told).schedules[0]?.max_attempts ?? null} before=${told ? steps(now.told).delays : []} />`}`;
}
