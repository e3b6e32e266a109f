// Sentences and numbers, in the words of the command line.

const SPACE = "\u00a0";

/**
 * How long something is.
 * @param {number} ms
 */
export function span(ms) {
  const seconds = Math.abs(ms) / 1_000;
  if (seconds < 1) return `${Math.round(Math.abs(ms))}${SPACE}ms`;
  if (seconds < 10) return `${Math.round(seconds * 10) / 10}${SPACE}s`;
  if (seconds < 59.5) return `${Math.round(seconds)}${SPACE}s`;
  const whole = Math.round(seconds);
  const [m, s] = [Math.floor(whole / 60), whole % 60];
  if (m < 60) return s ? `${m}${SPACE}m ${s}${SPACE}s` : `${m}${SPACE}m`;
  const [h, rest] = [Math.floor(m / 60), m % 60];
  if (h < 48) return rest ? `${h}${SPACE}h ${rest}${SPACE}m` : `${h}${SPACE}h`;
  return `${Math.floor(h / 24)}${SPACE}d ${h % 24}${SPACE}h`;
}

/** A time of the day, in UTC as everything that the server tells. @param {number} ms */
export const clock = (ms) => new Date(ms).toISOString().slice(11, 19);

/** A time near now without its day, and one that is further away with it. @param {number} ms @param {number} now */
export const near = (ms, now) =>
  Math.abs(ms - now) < 72_000_000 ? clock(ms) : `${new Date(ms).toISOString().slice(5, 16).replace("T", " ")}`;

/** A time, in full. @param {number} ms */
export const moment = (ms) => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** How long ago, or in how long. @param {number} ms @param {number} now */
export const from = (ms, now) => (ms > now ? `in ${soon(ms - now)}` : `${soon(now - ms)} ago`);

/** A time that ticks: in whole seconds. @param {number} ms */
export const soon = (ms) => span(Math.max(1_000, Math.round(ms / 1_000) * 1_000));

const SMALL = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

/** A number at the beginning of a sentence. @param {number} count @param {string} one @param {string} [some] */
export function Many(count, one, some = `${one}s`) {
  const word = SMALL[count] ?? count.toLocaleString("en");
  return `${word.charAt(0).toUpperCase()}${word.slice(1)} ${count === 1 ? one : some}`;
}

/** A number with its noun. @param {number} count @param {string} one @param {string} [many] */
export const many = (count, one, many = `${one}s`) =>
  `${count.toLocaleString("en")}${SPACE}${count === 1 ? one : many}`;

/** Above this many at once their number has to be typed. */
export const TYPED = 100;

/** How many bytes. @param {number} bytes */
export function size(bytes) {
  if (bytes < 1_000) return `${bytes}${SPACE}B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)}${SPACE}KB`;
  return `${(bytes / 1_000_000).toFixed(1)}${SPACE}MB`;
}

/** A word for a shell, quoted where it must be. @param {string} text */
export const word = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) && text !== "" ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** What a failure is, in a few words. @param {any} failure */
export function failed(failure) {
  if (!failure) return "failed";
  const kind = failure.type ?? failure.kind;
  return [kind, failure.code].filter(Boolean).join(" ") || "failed";
}

/** The message of a failure. @param {any} failure */
export const message = (failure) => String(failure?.message ?? "");

/** The name of a call for people. @param {any} call */
export const called = (call) => `${call.activity}#${call.seq ?? call.call?.split(".").pop()}`;

/**
 * The command with its reason.
 * @param {string} line
 * @param {string} reason
 */
export const because = (line, reason) => (reason ? `${line} --reason ${word(reason)}` : line);

/**
 * What an open call waits for, in a sentence without an end.
 * @param {any} call
 * @param {number} now
 */
export function waits(call, now) {
  const { activity, attempt } = call;
  const last = call.last?.failure ? `: ${message(call.last.failure) || failed(call.last.failure)}` : "";
  if (call.running)
    return `attempt ${attempt} of ${activity} runs${call.started_at_ms ? ` since ${span(now - call.started_at_ms)}` : ""}`;
  if (call.paused?.stopped) return `${activity} is paused, out of attempts (${call.paused.stopped})${last}`;
  if (call.paused)
    return `${activity} is paused${call.paused.by ? ` by ${call.paused.by}` : ""}${call.paused.reason ? `: “${call.paused.reason}”` : ""}`;
  if (call.held_by || call.waits_for === "gate")
    return `${activity} waits for ${call.held_by ?? `gate ${call.gate}`}`;
  if (call.waits_for === "unregistered") return `nobody who works knows ${activity}`;
  if (call.waits_for === "lacking") return `nobody can run ${activity}: ${call.lacks ?? "something is missing"}`;
  if (call.next_due_ms && call.next_due_ms > now)
    return `waits for attempt ${attempt + 1} of ${activity} ${from(call.next_due_ms, now)}${last}`;
  return `attempt ${attempt + 1} of ${activity} is due${last}`;
}

/** A sentence with a large letter, unless it begins with a name, which stays as it is. @param {string} text @param {string} name */
export const begin = (text, name) => (text.startsWith(name) ? text : text.charAt(0).toUpperCase() + text.slice(1));

/** The sign of an open call. @param {any} call */
export function sign(call) {
  if (call.running) return "running";
  if (call.paused) return call.paused.stopped ? "exhausted" : "paused";
  if (call.waits_for === "gate") return "gated";
  if (call.waits_for === "unregistered" || call.waits_for === "lacking") return "nobody";
  return call.failures ? "retrying" : "backoff";
}

/** The sign of an instance. @type {Record<string, string>} */
export const STATUS = {
  running: "running",
  completed: "done",
  failed: "failed",
  cancelled: "compensated",
  terminated: "incomplete",
  blocked: "blocked",
  paused: "paused",
};
