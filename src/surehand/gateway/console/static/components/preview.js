// The preview of a call: a diff, a text, or any JSON.
import { html } from "../html.js";
import { visible } from "../format.js";
import { Diff } from "./diff.js";
import { JsonView } from "./json_view.js";

export function Preview({ preview }) {
  if (typeof preview === "string") return html`<pre class="output">${visible(preview)}</pre>`;
  if (preview?.type === "diff" && typeof preview.patch === "string") {
    const title = `${preview.filePath ?? ""}${preview.isNewFile ? " (new file)" : ""}`;
    return html`<${Diff} patch=${preview.patch} title=${title} />`;
  }
  if (typeof preview === "object" && typeof preview.text === "string" && Object.keys(preview).length <= 2) {
    return html`<pre class="output">${visible(preview.text)}</pre>`;
  }
  return html`<${JsonView} value=${preview} label="Preview" />`;
}
