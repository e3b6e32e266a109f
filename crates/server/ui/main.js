// The first module: which view belongs to the address.
import { render } from "./vendor/preact.mjs";
import { useEffect } from "./vendor/hooks.mjs";
import { html } from "./vendor/html.js";
import { usePlace } from "./address.js";
import { listenToChanges } from "./api.js";
import { Activities } from "./activities.js";
import { Call } from "./call.js";
import { Gates, More } from "./gates.js";
import { Inbox } from "./inbox.js";
import { Instance } from "./instance.js";
import { Instances } from "./instances.js";
import { Lab } from "./lab.js";
import { Now } from "./now.js";
import { Schedules } from "./schedules.js";
import { initialTheme, Shell } from "./shell.js";
import { Workers } from "./workers.js";

/** @type {Record<string, (props: {name: string, query: URLSearchParams}) => any>} */
const VIEWS = {
  now: Now,
  instances: Instances,
  instance: Instance,
  call: Call,
  inbox: Inbox,
  gates: Gates,
  more: More,
  schedules: Schedules,
  workers: Workers,
  activities: Activities,
  lab: Lab,
};

function Page() {
  const { view, name, query } = usePlace();
  const View = VIEWS[view];
  useEffect(() => scrollTo(0, 0), [view, name]);
  return html`<${Shell} view=${view}>${
    View
      ? html`<${View} key=${`${view}/${name}`} name=${name} query=${query} />`
      : html`<div class="lede"><div><h1>There is no view ${view}.</h1><p class="under">
        <a href="#/now">Go to what goes on now</a></p></div></div>`
  }<//>`;
}

initialTheme();
listenToChanges();
render(html`<${Page} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
