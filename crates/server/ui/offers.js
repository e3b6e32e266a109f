// What this server offers, as its own description says: a filter or an action that it does not know is
// not shown.
import { useEffect, useState } from "./vendor/hooks.mjs";
import { ask } from "./api.js";

/** @type {Promise<any> | null} */
let asked = null;

// It stands beside the API, and is asked for as everything else is: who is let in may have it.
const description = () => ask("../../openapi.json");

/** How long until it is asked for again where it did not come, in milliseconds. */
const AGAIN = 3_000;

/**
 * Which routes and filters there are; null until that is known.
 * @returns {{has: (method: string, path: string) => boolean, filters: (path: string) => string[]} | null}
 */
export function useOffers() {
  const [found, set] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let timer = 0;
    const look = () => {
      asked ??= description();
      asked.then(set, () => {
        asked = null;
        timer = setTimeout(look, AGAIN);
      });
    };
    look();
    return () => clearTimeout(timer);
  }, []);
  if (!found) return null;
  const item = (path) => found.paths[`/api/v1/${path}`] ?? {};
  return {
    has: (method, path) => method in item(path),
    filters: (path) => (item(path).get?.parameters ?? []).filter((it) => it.in === "query").map((it) => it.name),
  };
}
