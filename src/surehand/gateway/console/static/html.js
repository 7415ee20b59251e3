// `html` makes elements from tagged templates. Text in them is always a text node: nothing here parses HTML.
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
