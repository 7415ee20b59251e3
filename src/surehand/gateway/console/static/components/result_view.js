// The outcome of a call: as text, JSON, image or table.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { visible } from "../format.js";
import { JsonView } from "./json_view.js";
import { Status } from "./status.js";

const MAX_TABLE_ROWS = 200;
const MAX_TEXT = 20_000;
// Pictures without scripts: an SVG could bring its own.
const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/\s]+=*\s*$/;

export function ResultView({ outcome }) {
  if (outcome.status === "failed") return html`<${Failure} outcome=${outcome} />`;
  if (outcome.status === "pending") {
    return html`<p><${Status} status=${outcome.waiting_for} kind="pending" /> ${outcome.message}</p>`;
  }
  return html`<${Result} outcome=${outcome} />`;
}

function Failure({ outcome }) {
  const hasRun = outcome.executed ? "The tool may have run." : "The tool did not run.";
  return html`<div class="notice bad" role="alert">
    <strong>${outcome.code}</strong>
    <p class="prose">${visible(outcome.message ?? outcome.text ?? "")}</p>
    ${outcome.executed !== undefined && outcome.executed !== null && html`<p class="hint">${hasRun}</p>`}
    ${outcome.data !== null && outcome.data !== undefined && html`<${JsonView} value=${outcome.data} label="Details" />`}
  </div>`;
}

function Result({ outcome }) {
  const images = findImages(outcome);
  const rows = tableRows(outcome.data);
  const views = [
    images.length > 0 && { name: "Image", view: html`<${Images} images=${images} />` },
    rows && { name: "Table", view: html`<${Table} rows=${rows} />` },
    { name: "Text", view: html`<${TextView} text=${outcome.text ?? ""} />` },
    { name: "JSON", view: html`<${JsonView} value=${outcome.data} label="Result as JSON" />` },
  ].filter(Boolean);
  const [name, setName] = useState(views[0].name);
  const current = views.find((each) => each.name === name) ?? views[0];
  return html`<div class="result">
    <div class="tabs small" role="group" aria-label="How to show the result">
      ${views.map((each) => html`<button type="button" class="tab" aria-pressed=${each === current}
        onClick=${() => setName(each.name)}>${each.name}</button>`)}
    </div>
    ${current.view}
  </div>`;
}

function TextView({ text }) {
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? text : text.slice(0, MAX_TEXT);
  if (text === "") return html`<p class="hint">The result is empty.</p>`;
  return html`<pre class="output" tabindex="0" aria-label="Result as text">${visible(shown)}</pre>
    ${shown.length < text.length && html`<button type="button" class="quiet" onClick=${() => setIsWhole(true)}>
      Show all ${text.length.toLocaleString("en")} characters</button>`}`;
}

function findImages({ content }) {
  return (content ?? [])
    .filter((each) => each.type === "image" && typeof each.data === "string")
    .map((each) => ({ type: each.mime_type, data: each.data }))
    .filter((each) => IMAGE_TYPES.has(each.type) && BASE64.test(each.data));
}

function Images({ images }) {
  return html`<div class="images">
    ${images.map((each, index) => html`<img src=${`data:${each.type};base64,${each.data}`} alt=${`Result ${index + 1}`} />`)}
  </div>`;
}

/** The rows of a list of objects; null for anything else. */
function tableRows(data) {
  const list = Array.isArray(data) ? data : Array.isArray(data?.result) ? data.result : null;
  const isTable = list?.length > 0 && list.every((each) => each && typeof each === "object" && !Array.isArray(each));
  return isTable ? list : null;
}

function Table({ rows }) {
  const columns = [...new Set(rows.slice(0, MAX_TABLE_ROWS).flatMap((row) => Object.keys(row)))];
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Result as a table">
    <table>
      <thead><tr>${columns.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
      <tbody>${rows.slice(0, MAX_TABLE_ROWS).map((row) => html`<tr>
        ${columns.map((each) => html`<td>${cellText(row[each])}</td>`)}</tr>`)}</tbody>
    </table>
    ${rows.length > MAX_TABLE_ROWS && html`<p class="hint">${MAX_TABLE_ROWS} of ${rows.length} rows</p>`}
  </div>`;
}

function cellText(value) {
  if (value === undefined || value === null) return "";
  return visible(typeof value === "object" ? JSON.stringify(value) : value);
}
