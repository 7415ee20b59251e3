// A button that copies a text and says so.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";

export function CopyButton({ text, label }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied");
    } catch {
      // Browsers offer the clipboard only to pages over HTTPS or on this machine.
      setSaid("The browser does not allow it");
    }
    setTimeout(() => setSaid(""), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy} aria-live="polite">${said || label}</button>`;
}
