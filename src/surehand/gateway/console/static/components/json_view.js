// A JSON value as indented text with colours; long ones are shortened until the person asks for all.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { toJson, visible } from "../format.js";
import { CopyButton } from "./copy_button.js";

const MAX_CHARACTERS = 4000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function JsonView({ value, label = "JSON" }) {
  const [isWhole, setIsWhole] = useState(false);
  const whole = visible(toJson(value));
  const text = isWhole ? whole : whole.slice(0, MAX_CHARACTERS);
  return html`<div class="json-view">
    <pre class="code" tabindex="0" aria-label=${label}>${text.length > 40_000 ? text : colour(text)}${text.length < whole.length ? "…" : ""}</pre>
    <div class="row small-gap">
      <${CopyButton} text=${toJson(value)} label="Copy" />
      ${text.length < whole.length && html`<button type="button" class="quiet" onClick=${() => setIsWhole(true)}>
        Show all ${whole.length.toLocaleString("en")} characters</button>`}
    </div>
  </div>`;
}

function colour(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, match.index));
    parts.push(html`<span class=${tokenClass(match)}>${match[0]}</span>`);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

function tokenClass([, string, colon, word]) {
  if (string) return colon ? "json-key" : "json-string";
  return word ? "json-word" : "json-number";
}
