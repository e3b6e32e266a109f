// What this server offers, as its own description says: a filter or an action that it does not know is
// not shown.
import { useEffect, useState } from "./vendor/hooks.mjs";

/** @type {Promise<any> | null} */
let asked = null;

async function description() {
  const answer = await fetch(new URL("../openapi.json", document.baseURI));
  return answer.ok ? answer.json() : null;
}

/**
 * Which routes and filters there are; null until that is known.
 * @returns {{has: (method: string, path: string) => boolean, filters: (path: string) => string[]} | null}
 */
export function useOffers() {
  const [found, set] = useState(/** @type {any} */ (null));
  useEffect(() => {
    asked ??= description().catch(() => null);
    asked.then((told) => {
      if (!told) asked = null;
      set(told);
    });
  }, []);
  if (!found) return null;
  const item = (path) => found.paths[`/api/v1/${path}`] ?? {};
  return {
    has: (method, path) => method in item(path),
    filters: (path) => (item(path).get?.parameters ?? []).filter((it) => it.in === "query").map((it) => it.name),
  };
}
