// What stands around every view: the bar, the tabs of a phone, the theme, what is found, how old what is
// shown is, and the question for a token.
import { html } from "./vendor/html.js";
import { useCallback, useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { go, to } from "./address.js";
import {
  age,
  ask,
  enter,
  EVERY,
  isLive,
  isSilent,
  leave,
  listen,
  look,
  setLive,
  STALE,
  useAsk,
  wantsToken,
  who,
} from "./api.js";
import { KEYS, useKeys } from "./keys.js";
import { isHearing, silence } from "./live.js";
import { Trouble } from "./parts.js";
import { Mark, Sign, textures } from "./shapes.js";
import { span } from "./words.js";

/** Views with their names, and the view that they belong to. @type {[string, string][]} */
const VIEWS = [
  ["now", "Now"],
  ["instances", "Instances"],
  ["inbox", "Inbox"],
  ["activities", "Activities"],
  ["gates", "Gates"],
  ["schedules", "Schedules"],
  ["workers", "Workers"],
  ["lab", "Lab"],
];
/** @type {Record<string, string>} */
const HOME = { instance: "instances", call: "instances", letter: "inbox" };
/** @type {[string, string, string][]} */
const TABS = [
  ["now", "Now", "done"],
  ["instances", "Instances", "retrying"],
  ["inbox", "Inbox", "paused"],
  ["gates", "Gates", "gated"],
  ["more", "More", "more"],
];

/** What a phone has behind "More". */
const MORE = ["activities", "schedules", "workers", "lab"];

const THEME = "resurgam-theme";

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem(THEME, root.dataset.theme);
}

/** What was chosen before, or what the address of the page asks for. */
export function initialTheme() {
  const wanted = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem(THEME);
  if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
}

/** @param {{view: string, children?: any}} props */
export function Shell({ view, children }) {
  const [open, setOpen] = useState("");
  const [, heard] = useState(0);
  useEffect(() => listen(() => heard((n) => n + 1)), []);
  const find = useCallback(() => setOpen("find"), []);
  const help = useCallback(() => setOpen("keys"), []);
  const close = useCallback(() => setOpen(""), []);
  useKeys({ find, help, close, theme: toggleTheme });
  const here = HOME[view] ?? view;
  const live = isLive();
  return html`${textures()}<a class="skip" href="#main" onClick=${(event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  }}>To the content</a>
    <header class="bar"><a class="mark" href=${to("now")}><${Mark} />Resurgam</a>
      <nav aria-label="Views">${VIEWS.map(([id, name]) => html`<a href=${to(id)} aria-current=${id === here ? "page" : null}>${name}</a>`)}</nav>
      <div class="tools"><button class="find" type="button" onClick=${find} aria-label="Find (key /)">
        <${Sign} name="find" size=${16} /><span>Find</span><kbd>/</kbd></button>
        <button class="live" type="button" aria-pressed=${live ? "true" : "false"} onClick=${() => setLive(!live)} title="Stop the page from changing (space)"><${Sign} name=${live ? "done" : "paused"} size=${16} /><span class="txt">${live ? "Live" : "Still"}</span><span class="sr"> updates</span></button>
        <button type="button" onClick=${toggleTheme} title="Light or dark (t)"><${Sign} name="theme" size=${16} />
          <span class="txt">Theme</span><span class="sr"> switch</span></button>
        ${
          who() && html`<button type="button" onClick=${leave} title="This browser is let in with the token ${who()}">Log out</button>`
        }</div></header>
    <${Age} />
    ${"switches" in document.body.dataset && html`<${Switches} />`}
    <main id="main" tabindex="-1">${wantsToken() ? html`<${Login} />` : children}</main>
    <nav class="tabs" aria-label="Views, short">${TABS.map(([id, name, sign]) => html`<a href=${to(id)} aria-current=${id === here || (id === "more" && MORE.includes(here)) ? "page" : null}><${Sign} name=${sign} /><span>${name}</span></a>`)}</nav>
    ${open === "find" && html`<${Find} close=${close} />`}
    ${open === "keys" && html`<${Keys} close=${close} />`}`;
}

/** What can be turned off and on here: a dependency of a demo or of a drill. */
function Switches() {
  const { data, problem } = useAsk("switches");
  const [refused, refuse] = useState(/** @type {any} */ (null));
  const turn = async ({ name, on }) => {
    try {
      await ask(`switches/${encodeURIComponent(name)}`, { method: "PUT", body: { on: !on } });
      refuse(null);
      look();
    } catch (wrong) {
      refuse(wrong);
    }
  };
  return html`<aside class="switches" aria-label="Switches">
    ${(data?.items ?? []).map((it) => html`<p><${Sign} name=${it.on ? "done" : "failed"} size=${16} />
      <span role="status">The <b>${it.name}</b> ${it.on ? "answers." : html`is <strong>out</strong>: whatever needs it fails.`}</span>
      <button type="button" onClick=${() => turn(it)}>Turn it ${it.on ? "off" : "on again"}</button></p>`)}
    <${Trouble} problem=${refused ?? problem} /></aside>`;
}

/** Says how old what is shown is, when it is old, and when nobody tells of changes any more. */
function Age() {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  // Who is asked who they are is shown nothing that could be old.
  if (wantsToken()) return null;
  const [old, says] = [age(), (ms) => span(Math.floor(ms / 1_000) * 1_000)];
  const bar = (text) => html`<p class="stale" role="status"><${Sign} name="lost" size=${16} /><span>${text}</span></p>`;
  if (old > STALE || (isSilent() && old > EVERY)) {
    const why = !isLive() ? "The page stands still; space goes on." : "The server does not answer.";
    // The age stands beside what is read aloud: a number that changes each second would be read each second.
    return bar(html`${why} <span aria-hidden="true">What is shown is ${says(old)} old.</span>`);
  }
  if (isLive() && !isHearing())
    return bar(html`The server tells of no changes: the page asks every ${span(EVERY)} instead. <span aria-hidden="true">Nothing was heard for ${says(silence())}.</span>`);
  return null;
}

function Login() {
  const [text, set] = useState("");
  const [wrong, setWrong] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await enter(text.trim());
    } catch (problem) {
      setWrong(problem instanceof Error ? problem.message : String(problem));
    }
  };
  return html`<div class="lede"><div><h1>This server asks who you are.</h1></div></div>
    <form class="deed login" onSubmit=${submit}><div>
      <h3>Paste a token. It is exchanged for a login of twelve hours, and kept nowhere.</h3></div>
      <div class="field"><label for="token">Token</label>
        <input id="token" type="password" value=${text} autocomplete="off" required onInput=${(event) => set(event.target.value)} />
      ${wrong && html`<p class="trouble" role="alert">${wrong}</p>`}</div>
      <div class="cli"><pre>resurgam token create --role operate --name you</pre></div>
      <div class="acts"><button class="primary" type="submit">Log in</button></div></form>`;
}

/** A dialog that closes with Escape and gives the focus back. */
function Dialog({ label, close, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return html`<dialog ref=${box} aria-label=${label} onClose=${close} onCancel=${close}>${children}</dialog>`;
}

function Keys({ close }) {
  return html`<${Dialog} label="Keys" close=${close}><h2>Keys</h2>
    <dl class="facts">${KEYS.map(([key, says]) => html`<dt><kbd>${key}</kbd></dt><dd>${says}</dd>`)}</dl>
    <p class="acts"><button type="button" onClick=${close}>Close</button></p><//>`;
}

function Find({ close }) {
  const [text, set] = useState("");
  const [told, tell] = useState("");
  const lead = (href) => {
    close();
    go(href);
  };
  const find = async (event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    try {
      const { items } = await ask(`search?q=${encodeURIComponent(wanted)}`);
      const [found] = items;
      if (found?.call) return lead(to("call", found.call));
      if (found && found.by !== "tag") return lead(to("instance", found.instance.uid));
      if (found) return lead(to("instances", null, { tag: wanted }));
      tell(
        `No instance has the id ${wanted} now. Write a whole id, a uid, a call (UID.RUN.SEQ), or a tag as name=value.`,
      );
    } catch (problem) {
      tell(problem instanceof Error ? problem.message : String(problem));
    }
  };
  return html`<${Dialog} label="Find" close=${close}><form onSubmit=${find}>
    <label for="find">Find: an id, a uid, a call, or a tag as name=value</label>
    <input id="find" type="text" value=${text} autocomplete="off" autofocus spellcheck=${false} onInput=${(event) => set(event.target.value)} />
    ${told && html`<p class="trouble" role="alert">${told}</p>`}
    <p class="acts"><button class="primary" type="submit">Find</button>
      <button type="button" onClick=${close}>Close</button></p></form><//>`;
}
