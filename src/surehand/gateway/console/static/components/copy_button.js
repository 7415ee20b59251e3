// A button that copies a text and says so.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";

export function CopyButton({ text, label }) {
  const [notice, setNotice] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setNotice("Copied");
    } catch {
      // Browsers offer the clipboard only to pages over HTTPS or on this machine.
      setNotice("The browser does not allow it");
    }
    setTimeout(() => setNotice(""), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy} aria-live="polite">${notice || label}</button>`;
}
