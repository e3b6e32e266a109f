// The list of instances: a sentence of filters, all of them in the address, 100 more at a time, and one
// action on all that match.
import { html } from "./vendor/html.js";
import { useCallback, useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import { amend, filters, forgetDraft, to } from "./address.js";
import { ask, now as serverNow, useAsk, useClock } from "./api.js";
import { Bulk } from "./bulk.js";
import { Fresh, Parts } from "./lists.js";
import { useOffers } from "./offers.js";
import { Command, Empty, Time, Trouble, useTitle, Wait } from "./parts.js";
import { Sign, Stair } from "./shapes.js";
import { from, many, moment, sign, span, STATUS, waits, word } from "./words.js";

const PAGE = 100;
/** As many rows are one part of the table: of a long one those near the window are drawn. */
const PART = 50;
/** As many selected rows as an address holds. */
const SELECTED = 100;
/** As many rows as can be asked about at once. */
const ASKED = 60;
const STATUSES = ["running", "completed", "failed", "cancelled", "terminated", "blocked", "paused"];
/** @type {[string, string, number][]} */
const SINCE = [
  ["", "at any time", 0],
  ["15m", "in the last 15 minutes", 900_000],
  ["1h", "in the last hour", 3_600_000],
  ["24h", "in the last 24 hours", 86_400_000],
  ["7d", "in the last 7 days", 604_800_000],
];
/** Filters that stand in the address under the name of the API. */
const TEXTS = ["workflow", "activity", "failure_type", "tag", "schedule", "text"];

/** What the API is asked for. @param {URLSearchParams} query @param {string[]} known */
function asked(query, known) {
  const wanted = new URLSearchParams({ limit: String(PAGE) });
  for (const name of ["status", "retrying", "paused", ...TEXTS]) {
    const value = query.get(name);
    if (value && known.includes(name)) wanted.set(name, value);
  }
  const since = SINCE.find(([name]) => name === query.get("since"));
  for (const name of ["from", "to"]) if (query.get(name)) wanted.set(name, query.get(name) ?? "");
  // Rounded, so that the filter stays the same while pages are loaded.
  if (since?.[2]) wanted.set("from", String(Math.floor((serverNow() - since[2]) / 60_000) * 60_000));
  return wanted;
}

/** The command that lists the same; none where it has no option for a condition. @param {URLSearchParams} query */
function command(query) {
  if (query.get("text") || query.get("schedule") || query.get("from") || query.get("to")) return "";
  const flag = (name, flag) => (query.get(name) ? ` ${flag} ${word(query.get(name) ?? "")}` : "");
  const named = (query.get("status") ?? "").split(",").filter(Boolean);
  const statuses = [...named, ...(query.get("paused") ? ["paused"] : [])].map((name) => ` --status ${name}`).join("");
  return `resurgam list${statuses}${query.get("retrying") ? " --retrying" : ""}${flag("workflow", "--workflow")}${flag("activity", "--activity")}${flag("failure_type", "--failure-type")}${flag("tag", "--tag")}${flag("since", "--since")}`;
}

/** @param {{query: URLSearchParams}} props */
export function Instances({ query }) {
  useTitle("Instances");
  const offers = useOffers();
  if (!offers) return html`<${Wait} problem=${null} />`;
  const known = offers.filters("instances");
  return html`<${Head} query=${query} known=${known} />
    <${List} key=${filters(query)} query=${query} known=${known} />`;
}

function List({ query, known }) {
  const clock = useClock();
  const wanted = useMemo(() => asked(query, known), [filters(query)]);
  const clash = clashes(query);
  const { data: first, problem } = useAsk(clash ? null : `instances?${wanted}`);
  const [rows, setRows] = useState(/** @type {any[] | null} */ (null));
  const [cursor, setCursor] = useState(/** @type {string | null} */ (null));
  // Selection and action stand in the address: a link shows what somebody is about to do, and to what.
  const [selected, select] = useState(() => new Set((query.get("sel") ?? "").split(",").filter(Boolean)));
  const acting = query.get("do") !== null;
  const [trouble, setTrouble] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!first) return;
    if (!rows) {
      setRows(first.items);
      setCursor(first.cursor);
      return;
    }
    // Values change in place; rows come and go when somebody asks for it.
    const fresh = new Map(first.items.map((row) => [row.uid, row]));
    setRows(rows.map((row) => fresh.get(row.uid) ?? row));
  }, [first]);
  useEffect(() => {
    const sel = selected.size && selected.size <= SELECTED ? [...selected].join(",") : null;
    if ((query.get("sel") ?? null) !== sel) amend({ sel });
  }, [selected]);
  const leave = useCallback(() => {
    forgetDraft(["sel"]);
    // Whoever came by the keyboard goes on where they were.
    document.getElementById("act-on-all")?.focus();
  }, []);
  const shown = rows ?? [];
  const [visible, watch] = useVisible();
  const open = shown
    .filter((row) => visible.has(row.uid) && row.closed_at_ms === null)
    .slice(0, ASKED)
    .map((row) => row.uid);
  const told = useAsk(open.length ? `waiting?uids=${open.join(",")}` : null).data?.items ?? [];
  const waiting = useKept(told);
  if (clash) return html`<${Empty}>${clash}<//>`;
  if (!rows) return html`<${Wait} problem=${problem} />`;
  const changed = first ? differs(rows, first) : 0;
  const renew = () => {
    setRows(first.items);
    setCursor(first.cursor);
    // What has come stands at the top.
    scrollTo(0, 0);
  };
  const more = async () => {
    try {
      const next = await ask(`instances?${wanted}&cursor=${encodeURIComponent(cursor ?? "")}`);
      const have = new Set(rows.map((row) => row.uid));
      setRows([...rows, ...next.items.filter((row) => !have.has(row.uid))]);
      setCursor(next.cursor);
    } catch (wrong) {
      setTrouble(wrong);
    }
  };
  const toggle = (uid) =>
    select((before) => {
      const next = new Set(before);
      if (!next.delete(uid)) next.add(uid);
      return next;
    });
  const line = command(query);
  return html`<div class="strip">${line ? html`<${Command} line=${line} />` : html`<p class="quiet">No command lists instances ${conditions(query, ["schedule", "text", "from", "to"]).join(" and ")}.</p>`}
      ${rows.length > 0 && html`<button type="button" id="act-on-all" onClick=${() => amend({ do: "retry" })}>${selected.size ? `Act on ${selected.size} selected` : "Act on all that match"}</button>`}
      </div><${Fresh} changed=${changed} show=${renew} />
    <${Trouble} problem=${problem ?? trouble} />
    ${
      acting &&
      html`<${Bulk} choices=${choices(
        query,
        wanted,
        rows.filter((row) => selected.has(row.uid)),
      )} close=${leave} />`
    }
    ${
      rows.length
        ? html`<${Table} rows=${rows} clock=${clock} waiting=${waiting} watch=${watch} selected=${selected} toggle=${toggle} />
      ${cursor ? html`<p class="acts after"><button type="button" onClick=${more}>${PAGE} more</button>
        <span class="quiet">${rows.length} are shown</span>
        </p>` : html`<p class="quiet after">That is all: ${many(rows.length, "instance")}.</p>`}`
        : html`<${Nothing} query=${query} />`
    }`;
}

/**
 * What cannot be asked for together: texts and schedules are looked for among instances, activities and
 * failures among calls.
 * @param {URLSearchParams} query
 */
function clashes(query) {
  const [some, others] = [conditions(query, ["text", "schedule"]), conditions(query, ["activity", "failure_type"])];
  if (!some.length || !others.length) return null;
  const away = (names) => to("instances", null, { ...Object.fromEntries(query), ...names });
  return html`The server cannot look for ${some.join(" and ")} together with ${others.join(" and ")}. Go on
    <a href=${away({ activity: null, failure_type: null })}>without ${others.join(" and ")}</a>, or
    <a href=${away({ text: null, schedule: null })}>without ${some.join(" and ")}</a>.`;
}

/** How many rows of the first page are not where they are now. */
function differs(rows, first) {
  const have = new Set(rows.map((row) => row.uid));
  const there = new Set(first.items.map((row) => row.uid));
  const come = first.items.filter((row) => !have.has(row.uid)).length;
  // Where the first page is all there is, what is not on it has left the filter.
  const gone = first.cursor === null ? rows.filter((row) => !there.has(row.uid)).length : 0;
  return come + gone;
}

/** What was told last about each, also while it is not asked for. */
function useKept(items) {
  const kept = useRef(new Map());
  for (const item of items) kept.current.set(item.uid, item);
  return kept.current;
}

/** Which rows can be seen; what is returned has one watched, and answers with what ends that. @returns {[Set<string>, (element: any) => () => void]} */
function useVisible() {
  const [visible, set] = useState(() => new Set());
  const change = (changes) =>
    set((before) => {
      const next = new Set(before);
      for (const [uid, isThere] of changes) isThere ? next.add(uid) : next.delete(uid);
      return next;
    });
  const observer = useMemo(
    () =>
      new IntersectionObserver(
        (entries) =>
          change(entries.map((it) => [/** @type {HTMLElement} */ (it.target).dataset.uid, it.isIntersecting])),
        { rootMargin: "120px" },
      ),
    [],
  );
  useEffect(() => () => observer.disconnect(), []);
  const watch = (element) => {
    observer.observe(element);
    return () => {
      observer.unobserve(element);
      change([[element.dataset.uid, false]]);
    };
  };
  return [visible, watch];
}

function Table({ rows, clock, waiting, watch, selected, toggle }) {
  return html`<table class="list" aria-rowcount=${rows.length + 1}><caption class="sr">Instances, the newest first</caption>
    <thead><tr><th class="pickcol"><span class="sr">Select</span></th><th>Instance</th><th class="wf">Workflow</th>
      <th class="what">What it waits for</th><th>Budget</th><th class="num">Next</th><th class="num">Age</th></tr>
      </thead>
    <${Parts} count=${Math.ceil(rows.length / PART)} guess=${PART * 41} rows=${7} part=${(i) => rows.slice(i * PART, (i + 1) * PART).map((row) => html`<${Row} key=${row.uid} row=${row} told=${waiting.get(row.uid)} clock=${clock} watch=${watch} on=${selected.has(row.uid)} toggle=${toggle} />`)} /></table>`;
}

function Row({ row, told, clock, watch, on, toggle }) {
  const hung = useRef(null);
  useEffect(() => watch(hung.current), []);
  const call = row.closed_at_ms === null ? told?.call : null;
  const next = call?.running
    ? "now"
    : call?.next_due_ms && !call.paused
      ? call.next_due_ms > clock
        ? span(call.next_due_ms - clock)
        : "due"
      : told?.timer_ms && !call
        ? span(Math.max(0, told.timer_ms - clock))
        : "–";
  return html`<tr ref=${hung} data-row data-uid=${row.uid} tabindex="-1" aria-selected=${on ? "true" : null}>
    <td class="pickcol">
      <input type="checkbox" aria-label="Select ${row.id}" checked=${on} onChange=${() => toggle(row.uid)} /></td>
    <td class="name"><a class="id" href=${to("instance", row.uid)}>${row.id}</a></td>
      <td class="wf quiet">${row.workflow}</td>
    <td class="what"><span class="tag">
      <${Sign} name=${call ? sign(call) : (STATUS[row.status] ?? "event")} size=${16} />
      </span> ${stands(row, told, call, clock)}</td>
    <td class="rise">${call && (call.failures > 0 || call.max_attempts) ? html`<${Stair} failed=${call.failures} max=${call.max_attempts} state=${sign(call)} />` : ""}</td>
    <td class="num due">${next}</td><td class="num age quiet"><${Time} at=${row.created_at_ms} now=${clock} /></td>
      </tr>`;
}

/** How an instance stands, in a few words. */
function stands(row, told, call, now) {
  if (row.status === "paused")
    return `paused${row.paused?.by ? ` by ${row.paused.by}` : ""}${row.paused?.reason ? `: “${row.paused.reason}”` : ""}`;
  if (row.status === "blocked") return `blocked: ${row.error ?? "its code does not fit"}`;
  if (row.closed_at_ms !== null)
    return `${row.status} after ${span(row.closed_at_ms - row.created_at_ms)}${row.compensation === "incomplete" ? ", and not all is undone" : row.compensation ? ", undone" : ""}`;
  if (call)
    return waits(call, now) + (told.calls > 1 ? ` (and ${many(told.calls - 1, "more call", "more calls")})` : "");
  if (told?.waits_for_first_turn) return "stored; nobody has taken it up";
  if (told?.timer_ms) return `sleeps, and goes on ${from(told.timer_ms, now)}`;
  return told ? "waits for a signal or a child" : row.status;
}

function Nothing({ query }) {
  if (query.toString() === "")
    return html`<${Empty}>Nothing was started yet. <code>resurgam demo</code> shows what would stand here; <code>resurgam start order.rap</code> starts an instance.<//>`;
  return html`<${Empty}>No instance is like that. <a href=${to("instances")}>Take all conditions away.</a><//>`;
}

/** The filters as a sentence. */
function Head({ query, known }) {
  const get = (name) => query.get(name) ?? "";
  const shown = TEXTS.filter((name) => known.includes(name));
  const LABELS = {
    workflow: "of workflow",
    activity: "with activity",
    failure_type: "failing with",
    tag: "with tag",
    schedule: "started by schedule",
    text: "id begins with",
  };
  return html`<div class="lede"><div><h1 class="sr">Instances</h1>
    <form class="query" role="search" aria-label="Which instances" onSubmit=${(event) => event.preventDefault()}>
      <label>Instances that are <select class=${get("status") ? "on" : ""} value=${get("status")} onChange=${(event) => amend({ status: event.target.value })}>
        <option value="">in any status</option>${STATUSES.map((name) => html`<option value=${name} selected=${name === get("status")}>${name}</option>`)}</select></label>
      <label>and <select class=${get("retrying") ? "on" : ""} value=${get("retrying")} onChange=${(event) => amend({ retrying: event.target.value })}><option value="">retrying or not</option><option value="true" selected=${get("retrying") === "true"}>retrying</option></select>,</label>
      <label>started <select class=${get("since") ? "on" : ""} value=${get("since")} onChange=${(event) => amend({ since: event.target.value })}>${SINCE.map(([name, says]) => html`<option value=${name} selected=${name === get("since")}>${says}</option>`)}</select></label>
      ${(get("from") || get("to")) && html`<span class="between">started ${get("from") && `from ${moment(Number(get("from")))}`} ${get("to") && `to ${moment(Number(get("to")))}`} <button type="button" onClick=${() => amend({ from: null, to: null })}>at any time</button></span>`}
      ${shown.map((name) => html`<label>${LABELS[name]} <input type="text" class=${get(name) ? "on" : ""} value=${get(name)} placeholder=${name === "tag" ? "name=value" : "any"} autocomplete="off" spellcheck=${false} onChange=${(event) => amend({ [name]: event.target.value.trim() })} /></label>`)}
    </form></div></div>`;
}

/** What a condition says of instances. @type {Record<string, (value: string) => string>} */
const SAYS = {
  status: (value) => `that are ${value.split(",").filter(Boolean).join(" or ")}`,
  paused: () => "that are paused",
  retrying: () => "that are retrying",
  activity: (value) => `with activity ${value}`,
  failure_type: (value) => `failing with ${value}`,
  schedule: (value) => `started by schedule ${value}`,
  text: (value) => `whose id begins with ${value}`,
  from: (value) => `started from ${moment(Number(value))} on`,
  to: (value) => `started before ${moment(Number(value))}`,
};

/** Those of these conditions that a query has, in words. @param {URLSearchParams} query @param {string[]} names */
const conditions = (query, names) =>
  names.filter((name) => query.get(name)).map((name) => `“${SAYS[name](query.get(name) ?? "")}”`);

/**
 * Why an action on all that match would be done to more than the list shows; nothing where it would not.
 * @param {URLSearchParams} query @param {string[]} names what the action cannot be narrowed by
 */
function tooWide(query, names) {
  const lost = conditions(query, names);
  return lost.length
    ? `This would be done to more than the list shows: it cannot be narrowed to instances ${lost.join(" and ")}. Take ${lost.length === 1 ? "that condition" : "those conditions"} away, or select the instances.`
    : "";
}

/** What can be done to all that match, or to those that are selected. @returns {import("./bulk.js").Choice[]} */
function choices(query, wanted, selected) {
  const get = (name) => query.get(name) || undefined;
  const tag = get("tag")?.split("=");
  const ids = selected.map((row) => row.id);
  const since = wanted.get("from");
  const shared = ids.length
    ? { ids }
    : {
        workflow: get("workflow"),
        tag: tag && [tag[0], tag.slice(1).join("=")],
        started_since_ms: since ? Number(since) : undefined,
      };
  const flag = (name, option) => (get(name) ? ` ${option} ${word(get(name) ?? "")}` : "");
  const flags = ids.length
    ? ids.map((id) => ` --id ${word(id)}`).join("")
    : `${flag("workflow", "--workflow")}${flag("tag", "--tag")}${since ? ` --started-since ${query.get("since") ?? new Date(Number(since)).toISOString()}` : ""}`;
  const of = ids.length ? "of the selected instances" : "that match";
  const such = `${flag("activity", "--activity")}${flag("failure_type", "--failure-type")}`;
  const narrow = { ...shared, activity: get("activity"), failure_type: get("failure_type") };
  const isRetrying = !ids.length && !!get("retrying");
  /** @type {(id: string, title: string, says: string, standing: string, lost?: string[]) => import("./bulk.js").Choice} */
  const onCalls = (id, title, says, standing, lost = []) => ({
    id,
    tab: `${title} calls`,
    title,
    noun: "call",
    says,
    refused: ids.length ? "" : tooWide(query, ["status", "paused", ...lost, "schedule", "text", "to"]),
    body: { action: id, calls: { ...narrow, status: standing } },
    command: `resurgam call ${id}${flags}${such} --status ${standing}`,
  });
  const listed = [
    ...(query.get("status") ?? "").split(",").filter(Boolean),
    ...(get("paused") ? ["paused"] : []),
  ];
  /** @type {(action: string, title: string, says: string, fitting: string[]) => import("./bulk.js").Choice} */
  const onRuns = (action, title, says, fitting) => {
    const statuses = ids.length || !listed.length ? fitting : fitting.filter((name) => listed.includes(name));
    const none = statuses.length ? "" : `Only instances that are ${fitting.join(" or ")} can be. The list shows others.`;
    return {
      id: `${action}-runs`,
      tab: `${title} instances`,
      title,
      noun: "instance",
      says,
      refused: ids.length ? "" : tooWide(query, ["schedule", "text", "to"]) || none,
      body: {
        action,
        runs: ids.length
          ? { ids, status: statuses }
          : { ...narrow, retrying: isRetrying, status: statuses },
      },
      command: isRetrying
        ? ""
        : `resurgam ${action}${flags}${ids.length ? "" : such}${statuses.map((name) => ` --status ${name}`).join("")}`,
    };
  };
  /** What takes back what. @type {Record<string, string>} */
  const inverse = {
    retry: "pause",
    pause: "resume",
    resume: "pause",
    "pause-runs": "resume-runs",
    "resume-runs": "pause-runs",
  };
  const all = [
    onCalls("retry", "Retry", `Retrying calls ${of} become due now.`, "retrying"),
    onCalls(
      "pause",
      "Pause",
      `${isRetrying ? "Retrying" : "Waiting"} calls ${of} make no attempt until somebody resumes them.`,
      isRetrying ? "retrying" : "waiting",
    ),
    onCalls("resume", "Resume", `Paused calls ${of} go on.`, "paused", ["retrying"]),
    onRuns("pause", "Pause", `Open instances ${of} take no turn until somebody resumes them.`, [
      "running",
      "blocked",
    ]),
    onRuns("resume", "Resume", `Paused instances ${of} go on.`, ["paused"]),
  ];
  return all.map((choice) => ({ ...choice, inverse: inverse[choice.id] }));
}
