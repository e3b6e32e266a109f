// What all pages write their elements with: htm on preact, without a build step.
import { h } from "./preact.mjs";
import htm from "./htm.mjs";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
