// The two panes of most pages: a list, and the detail of what is selected in it.
import { html } from "../html.js";
import { link } from "../router.js";

export function Panes({ page, id, list, detail }) {
  return html`<div class=${`panes ${id ? "has-detail" : ""}`}>
    <section class="list-pane" aria-label="List">${list}</section>
    <section class="detail-pane" aria-label="Detail">
      ${id && html`<a class="back" href=${link(page)}>← Back to the list</a>`}
      ${detail}
    </section>
  </div>`;
}

export function DetailHeading({ children }) {
  return html`<h2 tabindex="-1" data-detail>${children}</h2>`;
}

export function Facts({ items }) {
  const known = items.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">
    ${known.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

export function Notice({ tone = "", children }) {
  return html`<div class=${`notice ${tone}`} role=${tone === "bad" ? "alert" : "status"}>${children}</div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}
