// Asking the server. Addresses are relative, so that the pages work wherever they are mounted. A token is
// exchanged for a cookie that no script can read; the page keeps only the name of the token.
import { useCallback, useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { connect, isHearing, want } from "./live.js";

const BASE = new URL("../api/v1/", document.baseURI);
const KEY = "resurgam-login";

/** How often a view looks again while nobody tells it of changes, in milliseconds. */
export const EVERY = 3_000;
/** How often it does while it hears of changes: not everything that it shows is hinted at. */
const CALM = 15_000;
/** After this time a question without an answer is taken for lost, and asked again. */
const LOST = 30_000;
/** After this time without an answer the page says how old it is. */
export const STALE = 20_000;

/** What the server answered with instead of what was asked for. */
export class Problem extends Error {
  /** @param {number} status @param {string} detail @param {string} [code] */
  constructor(status, detail, code) {
    super(detail);
    this.status = status;
    this.code = code ?? "";
  }
}

/** The server's clock minus ours. */
let ahead = 0;
/** When it answered last, by our clock. */
let answered = 0;
/** Whether the last question came to nothing. */
let isLost = false;
/** What anybody who shows that hears of. */
const listeners = new Set();

/** The time at the server, in milliseconds since 1970. */
export const now = () => Date.now() + ahead;
/** How old what is shown is, in milliseconds: while nothing is hinted at, nothing has changed. */
export const age = () => (answered ? Date.now() - answered : 0);
/** Whether the server answers nothing. */
export const isSilent = () => isLost;

/** @param {string} path */
export const address = (path) => new URL(path.replace(/^\/(.*\/)?api\/v1\//, ""), BASE);

/** The name of the token that this browser has logged in with; empty when it has not. */
export const who = () => localStorage.getItem(KEY) ?? "";

/** @param {string} name */
function isNow(name) {
  if (name) localStorage.setItem(KEY, name);
  else localStorage.removeItem(KEY);
  wanted = false;
  listenToChanges();
  tell();
  look();
}

/** Hears of changes, as who is logged in now: others may read other things. */
export function listenToChanges() {
  connect(`resurgam ${BASE} ${who()}`, (topics, signal) => fetch(address(`live?topics=${topics}`), { signal, cache: "no-store" }));
}

// Another window has logged in or out.
addEventListener("storage", ({ key }) => {
  if (key !== KEY) return;
  wanted = false;
  listenToChanges();
  tell();
  look();
});

/** Logs in with a token, if the server takes it. @param {string} text */
export async function enter(text) {
  const answer = await fetch(address("login"), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token: text }),
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, told.detail ?? "The token is not known.", told.code);
  isNow(told.name);
}

/** Logs out: the cookie is worth nothing from then on. */
export async function leave() {
  await fetch(address("login"), { method: "DELETE" });
  isNow("");
}

/** Whether the server asks for a token. */
let wanted = false;
export const wantsToken = () => wanted;
const tell = () => listeners.forEach((heard) => heard());

/** @param {() => void} heard @returns {() => void} */
export function listen(heard) {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

/**
 * Asks, and answers with what was answered.
 * @param {string} path below the API
 * @param {{method?: string, body?: any, signal?: AbortSignal, key?: string}} [how]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = "GET", body, signal, key } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const sent = fetch(address(path), { method, headers, body: text, signal, cache: "no-store" });
  const answer = await sent.catch((error) => {
    isLost = !signal?.aborted;
    throw error;
  });
  isLost = false;
  const date = Date.parse(answer.headers.get("date") ?? "");
  // The header has whole seconds: a clock that differs by less is taken for the same.
  if (date) ahead = Math.abs(date - Date.now()) > 2_000 ? date - Date.now() : 0;
  answered = Date.now();
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    if (answer.status === 401) {
      wanted = true;
      tell();
    }
    throw new Problem(answer.status, told.detail ?? `${answer.status} ${answer.statusText}`, told.code);
  }
  return answer.status === 204 ? null : answer.json();
}

/**
 * A payload as it is stored, as a file.
 * @param {string} path
 */
export async function download(path) {
  const answer = await fetch(address(path));
  if (!answer.ok) throw new Problem(answer.status, answer.statusText);
  return answer.text();
}

/** Whether views look again by themselves. */
let live = true;
export const isLive = () => live;

/** @param {boolean} on */
export function setLive(on) {
  live = on;
  tell();
  if (on) look();
}

/** What has all views look again. */
const lookers = new Set();
export const look = () => lookers.forEach((again) => again());
document.addEventListener("visibilitychange", () => !document.hidden && live && look());

/** What hints at changes of the answer to a path. @param {string} path */
function topic(path) {
  const [, uid] = /^(?:instances|calls)\/([0-9a-f]{32})/.exec(path) ?? [];
  return uid ? `instance:${uid}` : "lists";
}

/**
 * What the server answers to a path, again and again while somebody looks: when it is hinted that something
 * has changed, and after a time. With `every` it is that time, whatever is hinted.
 * @param {string | null} path nothing is asked while it is null
 * @param {{every?: number}} [how]
 * @returns {{data: any, problem: Problem | null, again: () => void}}
 */
export function useAsk(path, { every } = {}) {
  const [state, set] = useState({
    path,
    data: /** @type {any} */ (null),
    problem: /** @type {Problem | null} */ (null),
  });
  const running = useRef(/** @type {AbortController | null} */ (null));
  const [began, isOld] = [useRef(0), useRef(false)];
  const again = useCallback(async () => {
    if (!path) return;
    // An answer that takes long is waited for: asked again each time, it would never come.
    if (running.current && Date.now() - began.current < LOST) {
      isOld.current = true;
      return;
    }
    running.current?.abort();
    const mine = (running.current = new AbortController());
    [began.current, isOld.current] = [Date.now(), false];
    try {
      const data = await ask(path, { signal: mine.signal });
      if (!mine.signal.aborted) set({ path, data, problem: null });
    } catch (problem) {
      if (mine.signal.aborted) return;
      const told = problem instanceof Problem ? problem : new Problem(0, "The server does not answer.");
      // What was there stays there: old is better than nothing, and the page says how old it is.
      set((before) => ({ path, data: before.path === path ? before.data : null, problem: told }));
    } finally {
      if (running.current === mine) running.current = null;
      // What somebody asked for meanwhile is newer than this answer.
      if (isOld.current && !mine.signal.aborted) again();
    }
  }, [path]);
  useEffect(() => {
    if (!path) return;
    again();
    lookers.add(again);
    const hinted = () => live && !document.hidden && again();
    const unwant = want(topic(path), hinted);
    const tick = () => {
      const wait = every ?? (isHearing() ? CALM : EVERY);
      if (live && !document.hidden && Date.now() - began.current >= wait && !running.current) again();
      else if (running.current && Date.now() - began.current >= LOST) again();
    };
    const timer = setInterval(tick, Math.min(every ?? EVERY, 1_000));
    return () => {
      clearInterval(timer);
      unwant();
      lookers.delete(again);
      isOld.current = false;
      running.current?.abort();
      running.current = null;
    };
  }, [again, every]);
  const mine = state.path === path;
  return { data: mine ? state.data : null, problem: mine ? state.problem : null, again };
}

/** The time at the server, a new one each second. */
export function useClock() {
  const [at, set] = useState(now);
  useEffect(() => {
    const timer = setInterval(() => live && set(now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return at;
}
