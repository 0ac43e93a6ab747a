// Components as functions, and markup as text within them: Preact, and htm in the place of a compiler.

import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export * from "./vendor/hooks.js";
export { render };
export const html = htm.bind(h);
