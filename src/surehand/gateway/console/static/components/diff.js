// A unified diff, line by line.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { visible } from "../format.js";

const MAX_LINES = 400;

export function Diff({ patch, title = "" }) {
  const [isWhole, setIsWhole] = useState(false);
  const lines = String(patch).replace(/\n$/, "").split("\n");
  const shown = isWhole ? lines : lines.slice(0, MAX_LINES);
  return html`<figure class="diff">
    ${title && html`<figcaption>${title}</figcaption>`}
    <pre class="code" tabindex="0" aria-label="Changes">${shown.map((line) => html`<span class=${lineClass(line)}>${visible(line)}${"\n"}</span>`)}</pre>
    ${lines.length > shown.length && html`<button type="button" class="quiet" onClick=${() => setIsWhole(true)}>
      Show all ${lines.length} lines</button>`}
  </figure>`;
}

function lineClass(line) {
  if (line.startsWith("+++") || line.startsWith("---")) return "diff-file";
  if (line.startsWith("@@")) return "diff-place";
  if (line.startsWith("+")) return "diff-added";
  if (line.startsWith("-")) return "diff-removed";
  return "diff-same";
}
