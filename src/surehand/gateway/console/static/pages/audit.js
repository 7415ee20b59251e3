// Audit: who decided and did what, and whether the records are unchanged.
import { html } from "../html.js";
import { useEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { post } from "../api.js";
import { formatNumber, formatTime, visible } from "../format.js";
import { link } from "../router.js";
import { FilterField } from "../components/filter_field.js";
import { Empty, Notice } from "../components/layout.js";
import { useListKeys } from "../components/list_keys.js";
import { usePages } from "../components/use_data.js";

const TONES = { denied: "bad", refused: "bad", conflict: "bad", wait: "waiting", answer: "good" };

const NEWS = new Set(["CallSettled", "CallPending", "CallEnded"]);
// Records are written in batches shortly after the event, and one call has several.
const WRITE_DELAY_MS = 400;

export function Audit({ id }) {
  const [filters, setFilters] = useState({ call: id, tool: "", user: "", session: "" });
  useEffect(() => setFilters((before) => (before.call === id ? before : { ...before, call: id })), [id]);
  const rows = usePages("/api/audit", filters, { isNews: (event) => NEWS.has(event.type), delayMs: WRITE_DELAY_MS });
  const table = useRef(null);
  useRowKeys(table, rows.items.length);
  const field = (name, label) => html`<${FilterField} label=${label} value=${filters[name]} isSearch=${name === "tool"}
    onChange=${(text) => setFilters({ ...filters, [name]: text })} />`;
  return html`<section class="page">
    <div class="filters">${field("call", "Call")} ${field("tool", "Tool")} ${field("user", "User")} ${field("session", "Session")}
      <${Verify} /></div>
    ${rows.problem && html`<${Notice} tone="bad">${rows.problem}<//>`}
    ${rows.isLoaded && !rows.problem && rows.items.length === 0 && html`<${Empty}>No record matches.<//>`}
    ${rows.items.length > 0 && html`<div class="table-scroll" tabindex="0" role="region" aria-label="Audit records" ref=${table}><table class="records">
      <thead><tr>${["When", "What", "Tool", "User", "By", "Call", "Details"].map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
      <tbody>${rows.items.map((row) => html`<${AuditRow} row=${row} />`)}</tbody></table></div>`}
    ${rows.next && html`<button type="button" class="more" onClick=${rows.loadMore}>Show older records</button>`}
  </section>`;
}

/** Keys of the table: j and k move between the links to the calls of the rows, which Enter follows. */
function useRowKeys(table, count) {
  const [index, setIndex] = useState(null);
  const select = (next) => {
    table.current?.querySelectorAll("tbody tr")[next]?.querySelector("a")?.focus();
    setIndex(next);
  };
  useListKeys(Array.from({ length: count }, (_, number) => number), index, select);
}

function AuditRow({ row }) {
  const { code, answer, waiting_for: waitingFor, ...rest } = row.detail;
  const what = [answer, code, waitingFor].filter(Boolean).join(", ");
  return html`<tr>
    <td class="when"><time>${formatTime(row.at)}</time></td>
    <td><span class=${`status ${TONES[row.kind] ?? "neutral"}`}>${row.kind}</span> ${what}</td>
    <td>${row.tool}</td><td>${row.user}</td><td>${row.by}</td>
    <td>${row.call_id && html`<a href=${link("calls", row.call_id)} title=${row.call_id}>${row.call_id.slice(0, 12)}</a>`}</td>
    <td><${Details} values=${rest} /></td>
  </tr>`;
}

const DIGEST = /^[0-9a-f]{64}$/;
const DIGEST_BEGINNING = 12;

/** What a record holds besides; of a digest its beginning, with the whole as a tooltip. */
function Details({ values }) {
  return Object.entries(values).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const isDigest = DIGEST.test(text);
    const shown = isDigest ? `${text.slice(0, DIGEST_BEGINNING)}…` : text;
    return html`<span class="detail" title=${isDigest ? text : undefined}><span class="meta">${name.replaceAll("_", " ")}${" "}</span>
      <code class="wrap">${visible(shown)}</code></span>`;
  });
}

function Verify() {
  const [state, setState] = useState({ name: "idle" });
  const verify = async () => {
    setState({ name: "busy" });
    try {
      setState({ name: "done", result: await post("/api/audit/verify") });
    } catch (error) {
      setState({ name: "failed", problem: error.message });
    }
  };
  return html`<div class="verify">
    <button type="button" disabled=${state.name === "busy"} onClick=${verify}>${state.name === "busy" ? "Verifying …" : "Verify"}</button>
    ${state.name === "failed" && html`<${Notice} tone="bad">${state.problem}<//>`}
    ${state.name === "done" && html`<${VerifyResult} result=${state.result} />`}
  </div>`;
}

function VerifyResult({ result }) {
  if (result.problem) return html`<${Notice} tone="bad"><strong>The records were changed.</strong> ${result.problem}<//>`;
  return html`<${Notice} tone="good"><strong>No record was changed.</strong>${" "}
    ${formatNumber(result.rows)} records, ${formatNumber(result.seals)} seals, ${formatNumber(result.unsealed)} not sealed yet.
    Head: <code class="wrap">${result.head}</code><//>`;
}
