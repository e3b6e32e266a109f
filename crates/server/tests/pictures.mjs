// Takes pictures of the dashboard, in both themes, wide and narrow, through a chromedriver that runs.
//
//   chromedriver --port=9515 &
//   node crates/server/tests/pictures.mjs http://127.0.0.1:8460/ui/ target/pictures '#/now' '#/instances'
//
// Each picture is named after its view. HEIGHT cuts them, SCALE makes them smaller, and CHROMEDRIVER names
// another driver. Nothing is waited for but what the page itself says: that it asks
// no more.
import { mkdirSync, writeFileSync } from "node:fs";

const [base, folder, ...views] = process.argv.slice(2);
const driver = process.env.CHROMEDRIVER ?? "http://127.0.0.1:9515";
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"];

async function call(method, path, body) {
  const answer = await fetch(`${driver}${path}`, { method, body: body && JSON.stringify(body), headers: { "content-type": "application/json" } });
  const { value } = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${value.message}`);
  return value;
}

async function picture(session, view, theme, name) {
  await call("POST", `${session}/url`, { url: "about:blank" });
  await call("POST", `${session}/url`, { url: `${base}?theme=${theme}${view}` });
  const ready = "const done = arguments[0]; (function look() { if (document.querySelector('main h1, main form') && !document.querySelector('[aria-busy]')) requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(Math.max(document.documentElement.scrollHeight, 600)), 900))); else setTimeout(look, 50); })();";
  const height = await call("POST", `${session}/execute/async`, { script: ready, args: [] });
  const whole = await call("POST", `${session}/goog/cdp/execute`, { cmd: "Page.captureScreenshot", params: { captureBeyondViewport: true, clip: { x: 0, y: 0, width: name.includes("390") ? 390 : 1440, height: Math.min(height, Number(process.env.HEIGHT ?? 2400)), scale: Number(process.env.SCALE ?? 1) } } });
  writeFileSync(`${folder}/${name}.png`, Buffer.from(whole.data, "base64"));
  const wide = await call("POST", `${session}/execute/sync`, { script: "return document.documentElement.scrollWidth - innerWidth", args: [] });
  console.log(`${name}.png, ${height} high${wide > 0 ? `, ${wide} TOO WIDE` : ""}`);
}

mkdirSync(folder, { recursive: true });
for (const width of [1440, 390]) {
  const mobile = width === 390 ? { mobileEmulation: { deviceMetrics: { width, height: 844, pixelRatio: 1, touch: true } } } : {};
  const options = { args: [...flags, `--window-size=${width},900`], ...mobile };
  const { sessionId } = await call("POST", "/session", { capabilities: { alwaysMatch: { browserName: "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": { browser: "ALL" } } } });
  const session = `/session/${sessionId}`;
  try {
    for (const view of views) {
      const named = view.replace(/^#\//, "").replace(/[?/].*$/, "");
      for (const theme of ["light", "dark"]) await picture(session, view, theme, `${named}-${width}-${theme}`);
    }
    const logs = await call("POST", `${session}/se/log`, { type: "browser" });
    for (const { level, message } of logs) console.log(level, message);
  } finally {
    await call("DELETE", session);
  }
}
