// A link to another site: only http and https, and the site learns nothing of this page.
import { html } from "../html.js";
import { visible } from "../format.js";

export function SafeLink({ url, children }) {
  const parsed = parseUrl(url);
  if (!parsed) return html`<code>${visible(url)}</code>`;
  return html`<a href=${parsed.href} target="_blank" rel="noopener noreferrer">${children ?? visible(url)}</a>`;
}

function parseUrl(url) {
  try {
    const parsed = new URL(url);
    return parsed.protocol === "https:" || parsed.protocol === "http:" ? parsed : null;
  } catch {
    return null;
  }
}
