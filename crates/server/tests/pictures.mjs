// Takes pictures of every view of the dashboard, in both themes, wide and narrow, into docs/pictures/dashboard.
//
//   node crates/server/tests/pictures.mjs target/debug/resurgam
//
// It runs `resurgam demo --serve` on a file of its own, turns the payment gateway off until calls are out of
// attempts, on, and off again, and looks at what there is then. It needs chromium and chromedriver, and ends what it
// started. Another folder, and views in place of all, may follow: target/pictures '#/now' '#/inbox'. BASE names
// a server that runs already (http://127.0.0.1:8460/ui/), DRIVER a chromedriver that does.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateSync, inflateSync } from "node:zlib";

const [binary = "target/debug/resurgam", folder = "docs/pictures/dashboard", ...wanted] = process.argv.slice(2);
/** As many colours as a picture has: the pages are flat, and a picture of them is small that way. */
const COLOURS = 48;
/** As high as a picture is at most, by its width. */
const HEIGHT = { 1440: 1150, 390: 1500 };
const DRIVER = "http://127.0.0.1:9517";
const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"];

const started = [];

/** Runs a program, and waits until it says something. */
function run(program, args, says) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  return new Promise((done, failed) => {
    child.stdout.on("data", (text) => String(text).includes(says) && done(child));
    child.on("exit", (code) => failed(new Error(`${program} ended with ${code}`)));
    child.on("error", failed);
  });
}

async function ask(url, method = "GET", body) {
  const answer = await fetch(url, { method, body: body && JSON.stringify(body), headers: { "content-type": "application/json" } });
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${url}: ${JSON.stringify(told).slice(0, 300)}`);
  return told;
}

/** Looks until something is so, for five minutes at most. */
async function until(what, look) {
  const end = Date.now() + 300_000;
  while (!(await look())) {
    if (Date.now() > end) throw new Error(`waited for ${what}`);
    await new Promise((done) => setTimeout(done, 500));
  }
}

/** Runs the demo until there is something to see, and answers with its address. */
async function demo(file) {
  const port = 8467;
  await run(binary, ["demo", "--serve", String(port), "--db", file, "--speed", "4"], "Open http");
  const api = `http://127.0.0.1:${port}/api/v1`;
  const gateway = (on) => ask(`${api}/switches/payment%20gateway`, "PUT", { on });
  const count = async (path) => (await ask(`${api}/${path}`)).items.length;
  await until("orders that are done", async () => (await count("instances?status=completed")) >= 12);
  await gateway(false);
  await until("calls that are out of attempts", async () => (await count("paused")) >= 3);
  await gateway(true);
  await until("more orders that are done", async () => (await count("instances?status=completed")) >= 24);
  await gateway(false);
  await ask(`${api}/gates/ship/actions/shut`, "POST", { reason: "the carrier asked us to" });
  await until("calls that retry", async () => (await count("instances?retrying=true&limit=100")) >= 3);
  return `http://127.0.0.1:${port}/ui/`;
}

/** The views, with things of which there is something to see. */
async function views(base) {
  const api = new URL("../api/v1/", base);
  const first = async (path) => (await ask(new URL(path, api))).items[0];
  const [tries, held] = [await first("instances?retrying=true&limit=1"), await first("paused?limit=1")];
  const open = tries ?? (await first("instances?limit=1"));
  const [call] = (await ask(new URL(`instances/${open.uid}`, api))).pending;
  return {
    now: "#/now",
    instances: "#/instances",
    "instances-bulk": "#/instances?retrying=true&do=pause&why=the+bank+asked+us+to",
    instance: `#/instance/${held?.call.split(".")[0] ?? open.uid}`,
    call: `#/call/${call?.call ?? held.call}`,
    inbox: "#/inbox",
    activities: "#/activities?name=charge",
    gates: "#/gates?key=ship",
    schedules: "#/schedules",
    workers: "#/workers",
    lab: "#/lab",
    more: "#/more",
  };
}

const driver = process.env.DRIVER || DRIVER;
const call = async (method, path, body) => (await ask(`${driver}${path}`, method, body)).value;

/** Waits until the page asks no more and its lists have been drawn. */
const READY = `const done = arguments[0];
  (function look() {
    const isReady = document.querySelector("main h1, main form") && !document.querySelector("[aria-busy]");
    if (!isReady) return setTimeout(look, 50);
    setTimeout(() => done(Math.max(document.documentElement.scrollHeight, 600)), 900);
  })();`;

async function picture(session, base, view, theme, width, name) {
  await call("POST", `${session}/url`, { url: "about:blank" });
  await call("POST", `${session}/url`, { url: `${base}?theme=${theme}${view}` });
  const high = await call("POST", `${session}/execute/async`, { script: READY, args: [] });
  const clip = { x: 0, y: 0, width, height: Math.min(high, HEIGHT[width]), scale: 1 };
  // A narrow page has its tabs at the bottom of the window: the window is made as high as the picture.
  await call("POST", `${session}/goog/cdp/execute`, { cmd: "Emulation.setDeviceMetricsOverride", params: { width, height: clip.height, deviceScaleFactor: 1, mobile: width < 500 } });
  const { data } = await call("POST", `${session}/goog/cdp/execute`, { cmd: "Page.captureScreenshot", params: { captureBeyondViewport: true, clip } });
  await call("POST", `${session}/goog/cdp/execute`, { cmd: "Emulation.clearDeviceMetricsOverride", params: {} });
  const file = join(folder, `${name}.png`);
  writeFileSync(file, fewer(Buffer.from(data, "base64")));
  const wide = await call("POST", `${session}/execute/sync`, { script: "return document.documentElement.scrollWidth - innerWidth", args: [] });
  console.log(`${file}, ${statSync(file).size} bytes${wide > 0 ? `, ${wide} TOO WIDE` : ""}`);
}

/** The same picture with few colours. @param {Buffer} png */
function fewer(png) {
  const { width, height, pixels } = decoded(png);
  const counts = new Map();
  for (let i = 0; i < pixels.length; i += 3) {
    const colour = (pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = chosen(counts);
  const nearest = new Map();
  const index = (colour) => {
    if (!nearest.has(colour)) nearest.set(colour, palette.reduce((best, it, i) => (distance(it, colour) < distance(palette[best], colour) ? i : best), 0));
    return nearest.get(colour);
  };
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0, i = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1, i += 3) rows[y * (width + 1) + 1 + x] = index((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([png.subarray(0, 8), chunk("IHDR", head), chunk("PLTE", colours), chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

const distance = (a, b) => ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2;

/** Colours that are used much and are unlike each other. @param {Map<number, number>} counts */
function chosen(counts) {
  const palette = [];
  for (const apart of [300, 60, 0])
    for (const [colour] of [...counts].sort((a, b) => b[1] - a[1]))
      if (palette.length < COLOURS && palette.every((it) => distance(it, colour) > apart)) palette.push(colour);
  return palette;
}

/** The pixels of a PNG as browsers write them: 8 bits, without interlacing. @param {Buffer} png */
function decoded(png) {
  const [parts, found] = [[], {}];
  for (let at = 8; at < png.length; ) {
    const [length, kind] = [png.readUInt32BE(at), png.toString("latin1", at + 4, at + 8)];
    const body = png.subarray(at + 8, at + 8 + length);
    if (kind === "IHDR") Object.assign(found, { width: body.readUInt32BE(0), height: body.readUInt32BE(4), bytes: body[9] === 6 ? 4 : 3 });
    if (kind === "IDAT") parts.push(body);
    at += 12 + length;
  }
  const { width, height, bytes } = found;
  const [raw, line] = [inflateSync(Buffer.concat(parts)), width * bytes];
  const [pixels, before] = [Buffer.alloc(width * height * 3), Buffer.alloc(line)];
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (line + 1)];
    const row = raw.subarray(y * (line + 1) + 1, (y + 1) * (line + 1));
    for (let i = 0; i < line; i += 1) {
      const [left, up, corner] = [i < bytes ? 0 : row[i - bytes], before[i], i < bytes ? 0 : before[i - bytes]];
      const [p, q, r] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
      const guess = [0, left, up, (left + up) >> 1, p <= q && p <= r ? left : q <= r ? up : corner][filter];
      row[i] = (row[i] + guess) & 255;
    }
    before.set(row);
    for (let x = 0; x < width; x += 1) for (let c = 0; c < 3; c += 1) pixels[(y * width + x) * 3 + c] = row[x * bytes + c];
  }
  return { width, height, pixels };
}

const TABLE = Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k += 1) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n >>> 0;
});

function chunk(kind, body) {
  const text = Buffer.concat([Buffer.from(kind, "latin1"), body]);
  const sum = text.reduce((crc, byte) => (crc >>> 8) ^ TABLE[(crc ^ byte) & 255], 0xffffffff);
  const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length);
  crc.writeUInt32BE((sum ^ 0xffffffff) >>> 0);
  return Buffer.concat([length, text, crc]);
}

mkdirSync(folder, { recursive: true });
const scratch = mkdtempSync(join(tmpdir(), "resurgam-pictures-"));
try {
  if (!process.env.DRIVER) await run("chromedriver", [`--port=${new URL(DRIVER).port}`], "started successfully");
  const base = process.env.BASE || (await demo(join(scratch, "demo.db")));
  const named = wanted.length ? Object.fromEntries(wanted.map((view) => [view.replace(/^#\//, "").replace(/[?/].*$/, ""), view])) : await views(base);
  for (const width of [1440, 390]) {
    const mobile = width === 390 ? { mobileEmulation: { deviceMetrics: { width, height: 844, pixelRatio: 1, touch: true } } } : {};
    const options = { args: [...FLAGS, `--window-size=${width},900`], ...mobile };
    const { sessionId } = await call("POST", "/session", { capabilities: { alwaysMatch: { browserName: "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { browser: "ALL" } } } });
    const session = `/session/${sessionId}`;
    try {
      for (const [name, view] of Object.entries(named)) for (const theme of ["light", "dark"]) await picture(session, base, view, theme, width, `${name}-${width}-${theme}`);
      for (const { level, message } of await call("POST", `${session}/se/log`, { type: "browser" })) console.log(level, message);
    } finally {
      await call("DELETE", session);
    }
  }
} finally {
  // The file is theirs until they have ended.
  const ended = (child) => new Promise((done) => (child.exitCode === null ? child.once("exit", done) : done(null)));
  for (const child of started) child.kill("SIGTERM");
  await Promise.all(started.map(ended));
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(0);
