// A text by which a list is filtered: it counts once it is complete, and what is typed stays while the list changes.
import { html } from "../html.js";
import { useEffect, useState } from "../vendor/preact-hooks.js";

export function FilterField({ label, value, onChange, isSearch = false }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return html`<label class="stacked">${label}
    <input type="text" value=${text} data-search=${isSearch ? "" : undefined} onInput=${(event) => setText(event.target.value)}
      onChange=${(event) => onChange(event.target.value.trim())} /></label>`;
}
