// Hints of what has changed: one stream of server-sent events for all tabs of a browser. The tab that
// holds a lock reads the stream and tells the others over a channel; a tab that cannot be seen wants
// nothing, and lets go of both. A browser opens six connections to a server, and a stream takes one.

/** After this time without a sign of life nothing is expected of the stream any more. */
export const SILENCE = 40_000;
/** As many topics as the server takes. */
const MOST = 20;
/** How long until a stream that ended is opened again, by how often that has failed in a row. */
const AGAIN = [500, 1_000, 2_000, 5_000, 10_000, 15_000];
/** What another tab wants is forgotten after this time, unless it says so again. */
const FORGOTTEN = 60_000;

/** This tab, among those that share the channel. */
const mine = crypto.getRandomValues(new Uint32Array(2)).join("-");

/** Who wants to hear of a topic in this tab. @type {Map<string, Set<() => void>>} */
const wanted = new Map();
/** What other tabs want. @type {Map<string, {topics: string[], at: number}>} */
const others = new Map();

/** @type {((topics: string, signal: AbortSignal) => Promise<Response>) | null} */
let open = null;
let name = "";
/** @type {BroadcastChannel | null} */
let channel = null;
/** Lets go of the lock, or of the place in the queue for it. @type {(() => void) | null} */
let release = null;
let isLeading = false;
/** @type {{topics: string, control: AbortController} | null} */
let stream = null;
let failures = 0;
let heardAt = Date.now();
let timer = 0;

/** Whether changes are heard of by themselves. */
export const isHearing = () => isOpen() && Date.now() - heardAt < SILENCE;
/** How long nothing has been heard, in milliseconds. */
export const silence = () => Date.now() - heardAt;
const isOpen = () => channel !== null;

/**
 * Hears of a topic until it is told not to. The topic `*` says that changes may have been missed.
 * @param {string} topic @param {() => void} heard @returns {() => void}
 */
export function want(topic, heard) {
  const known = wanted.get(topic) ?? new Set();
  wanted.set(topic, known.add(heard));
  renew();
  return () => {
    known.delete(heard);
    if (!known.size) wanted.delete(topic);
    renew();
  };
}

/**
 * Begins to listen, under a name that tabs share which may read the same.
 * @param {string} shared @param {(topics: string, signal: AbortSignal) => Promise<Response>} how
 */
export function connect(shared, how) {
  rest();
  [name, open] = [shared, how];
  turn();
}

const turn = () => (document.hidden ? rest() : begin());
document.addEventListener("visibilitychange", turn);
addEventListener("pagehide", rest);

function begin() {
  if (!open || isOpen()) return;
  heardAt = Date.now();
  channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => told(data);
  // Locks are there on this machine and with TLS only; elsewhere each tab listens for itself.
  if (!navigator.locks) lead();
  else {
    const queue = new AbortController();
    release = () => queue.abort();
    const held = () => {
      lead();
      return new Promise((done) => (release = () => done(null)));
    };
    navigator.locks.request(name, { signal: queue.signal }, held).catch(() => {});
  }
  announce();
}

function rest() {
  if (!isOpen()) return;
  post({ gone: mine });
  stream?.control.abort();
  clearTimeout(timer);
  [stream, isLeading] = [null, false];
  release?.();
  release = null;
  others.clear();
  channel?.close();
  channel = null;
}

function lead() {
  isLeading = true;
  post({ who: true });
  renew();
}

/** @param {any} message */
const post = (message) => channel?.postMessage(message);
const announce = () => post({ from: mine, topics: [...wanted.keys()] });

/** What another tab says. */
function told({ from, topics, gone, who, changed, alive }) {
  if (alive) heardAt = Date.now();
  if (changed) spread(changed);
  if (who) announce();
  if (gone) others.delete(gone);
  if (from) others.set(from, { topics, at: Date.now() });
  if (isLeading && (gone || from)) renew();
}

/** Has this tab hear. @param {string} topic */
function spread(topic) {
  const heard = topic === "*" ? [...wanted.values()].flatMap((set) => [...set]) : [...(wanted.get(topic) ?? [])];
  for (const it of heard) it();
}

/** Opens the stream again where other things are wanted than it tells of. */
function renew() {
  if (!isOpen()) return;
  clearTimeout(timer);
  timer = setTimeout(() => {
    announce();
    if (!isLeading) return;
    const topics = all();
    if (stream?.topics !== topics) read(topics);
  }, 50);
}

/** What this tab and the others want. The lists come first, if there is not room for everything. */
function all() {
  for (const [from, { at }] of others) if (Date.now() - at > FORGOTTEN) others.delete(from);
  const topics = new Set([...wanted.keys(), ...[...others.values()].flatMap((it) => it.topics)]);
  topics.add("lists");
  return [...topics].sort((a, b) => Number(b === "lists") - Number(a === "lists") || a.localeCompare(b)).slice(0, MOST).join(",");
}

/** Reads the stream until it ends. @param {string} topics */
async function read(topics) {
  stream?.control.abort();
  const control = new AbortController();
  const me = (stream = { topics, control });
  try {
    const answer = await /** @type {any} */ (open)(topics, control.signal);
    if (!answer.ok || !answer.body) throw new Error(`${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let [rest, isFirst] = ["", true];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      failures = 0;
      heardAt = Date.now();
      post({ alive: true });
      // What changed before it was open was told to nobody.
      if (isFirst) tell("*");
      isFirst = false;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) hear(part);
    }
  } catch {
    // It is opened again, whatever the reason; the page says so when nothing helps.
  }
  if (control.signal.aborted || stream !== me) return;
  stream = null;
  if (!failures) tell("*");
  timer = setTimeout(renew, AGAIN[Math.min(failures, AGAIN.length - 1)]);
  failures += 1;
}

/** An event of the stream. Comments are signs of life and nothing else. @param {string} part */
function hear(part) {
  const field = (name) => part.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  if (field("event") === "reset") tell("*");
  if (field("event") === "changed") tell(JSON.parse(field("data") ?? "{}").topic);
}

/** Tells this tab and the others. @param {string} topic */
function tell(topic) {
  spread(topic);
  post({ changed: topic });
}

// A connection that was lost says nothing, not even that it has ended.
setInterval(() => {
  if (!isOpen()) return;
  announce();
  if (isLeading && stream && silence() > SILENCE) {
    stream.control.abort();
    stream = null;
    renew();
  }
}, 20_000);
