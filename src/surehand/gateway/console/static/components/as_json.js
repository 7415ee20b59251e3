// The checkbox that says that a text is JSON.
import { html } from "../html.js";

export function AsJson({ isJson, setIsJson, isDisabled }) {
  return html`<label class="choice"><input type="checkbox" checked=${isJson} disabled=${isDisabled}
    onChange=${(event) => setIsJson(event.target.checked)} /> as JSON</label>`;
}
