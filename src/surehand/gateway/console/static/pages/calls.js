// Calls: what was called, live, with its tree and times.
import { html } from "../html.js";
import { useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get, post } from "../api.js";
import { formatAge, formatDuration, formatTime } from "../format.js";
import { go, link } from "../router.js";
import { now, onEvent } from "../store.js";
import { FilterField } from "../components/filter_field.js";
import { DetailHeading, Empty, Facts, Notice, Panes } from "../components/layout.js";
import { JsonView } from "../components/json_view.js";
import { CallProgress } from "../components/progress.js";
import { ResultView } from "../components/result_view.js";
import { Status } from "../components/status.js";
import { Waterfall } from "../components/waterfall.js";
import { useListKeys } from "../components/list_keys.js";
import { useData, usePages } from "../components/use_data.js";
import { prefilled } from "./tools.js";

const MAX_LIVE_CALLS = 1000;
// As the filter `status` of the API: events change the state of calls that are shown already.
const STATES = {
  "": () => true,
  running: (call) => !["ended", "pending", "unknown"].includes(call.kind),
  waiting: (call) => ["pending", "unknown"].includes(call.kind),
  failed: (call) => call.kind === "ended" && call.status !== "ok",
  done: (call) => call.kind === "ended" && call.status === "ok",
};

export function Calls({ id }) {
  const [filters, setFilters] = useState({ tool: "", user: "", session: "" });
  const [state, setState] = useState("");
  const calls = useCalls(filters, state);
  const shown = calls.items.filter(STATES[state]);
  const ids = useMemo(() => shown.map((each) => each.call_id), [shown.length, shown[0]?.call_id, state]);
  useListKeys(ids, id, (callId) => go("calls", callId));
  const list = html`
    <${Filters} filters=${filters} setFilters=${setFilters} state=${state} setState=${setState} />
    ${calls.problem && html`<${Notice} tone="bad">${calls.problem}<//>`}
    ${calls.isLoaded && shown.length === 0 && html`<${Empty}>No call matches. New calls appear here by themselves.<//>`}
    <ul class="list">${shown.map((each) => html`<${CallRow} key=${each.call_id} call=${each} isCurrent=${each.call_id === id} />`)}</ul>
    ${calls.next && html`<button type="button" class="more" onClick=${calls.loadMore}>Show older calls</button>`}`;
  const detail = id
    ? html`<${CallDetail} key=${id} id=${id} />`
    : html`<${Empty}>Select a call to see its arguments, its result and the calls in it.<//>`;
  return html`<${Panes} page="calls" id=${id} list=${list} detail=${detail} />`;
}

function Filters({ filters, setFilters, state, setState }) {
  const field = (name, label) => html`<${FilterField} label=${label} value=${filters[name]} isSearch=${name === "tool"}
    onChange=${(text) => setFilters({ ...filters, [name]: text })} />`;
  return html`<div class="filters">
    ${field("tool", "Tool")} ${field("user", "User")} ${field("session", "Session")}
    <label class="stacked">State
      <select value=${state} onChange=${(event) => setState(event.target.value)}>
        <option value="">All</option><option value="running">Running</option><option value="waiting">Waiting</option>
        <option value="failed">Failed</option><option value="done">Done</option>
      </select></label>
  </div>`;
}

function CallRow({ call, isCurrent }) {
  const time = call.kind === "ended" && call.latency_ms ? ` · ${formatDuration(call.latency_ms)}` : "";
  return html`<li class="row-item" aria-current=${isCurrent}>
    <a href=${link("calls", call.call_id)}>
      <span class="row-title"><strong>${call.tool}</strong><${Status} status=${call.status} kind=${call.kind} /></span>
      <span class="meta">${call.user ? `${call.user} · ` : ""}${formatAge(call.at, now.value)}${time}${call.parent ? " · nested" : ""}</span>
    </a>
  </li>`;
}

/** The calls of the filters, newest first, kept current by events. */
function useCalls(filters, status) {
  // What happens while calls are loaded is newer than the answer.
  const loads = useRef(new Set());
  const adjust = async (loading) => {
    const events = [];
    loads.current.add(events);
    try {
      const page = await loading;
      return { ...page, items: events.reduce(applyEvent, unique(page.items)) };
    } finally {
      loads.current.delete(events);
    }
  };
  const calls = usePages("/api/calls", { ...filters, status }, {}, adjust);
  useLayoutEffect(
    () =>
      onEvent((event) => {
        if (!event.type.startsWith("Call") || !isWanted(event, filters)) return;
        for (const events of loads.current) events.push(event);
        calls.update((page) => ({ ...page, items: applyEvent(page.items, event) }));
      }),
    [filters],
  );
  return calls;
}

function isWanted(event, filters) {
  return Object.entries(filters).every(([name, value]) => !value || event[name] === value);
}

// A call to which something happened between the requests of two pages is on both.
function unique(items) {
  const seen = new Map();
  for (const each of items) if (!seen.has(each.call_id)) seen.set(each.call_id, each);
  return [...seen.values()];
}

function applyEvent(items, event) {
  const { call_id, tool, user, session, parent, turn, at } = event;
  const summary = { call_id, tool, user, session, parent, turn, at, latency_ms: 0, status: "running", kind: "running" };
  if (event.type === "CallQueued") summary.status = "queued";
  if (event.type === "CallPending") Object.assign(summary, { kind: "pending", status: event.waiting_for });
  if (event.type === "CallEnded") {
    const { outcome } = event;
    summary.kind = outcome.status === "pending" ? "pending" : "ended";
    summary.status = outcome.code ?? outcome.waiting_for ?? "ok";
    summary.latency_ms = event.meta?.latency_ms ?? 0;
  }
  const index = items.findIndex((each) => each.call_id === call_id);
  if (index < 0) return [summary, ...items].slice(0, MAX_LIVE_CALLS);
  const isOld = event.type === "CallProgress" || (items[index].kind === "ended" && summary.kind !== "ended");
  return isOld ? items : items.with(index, { ...items[index], ...summary });
}

async function loadCall(id) {
  const found = await get(`/api/calls/${encode(id)}`);
  const { calls, is_complete } = await get(`/api/calls/${encode(id)}/tree`);
  // The tree knows from the events what the call itself does not remember any more.
  const recorded = calls.find((each) => each.call_id === id);
  const call = {
    ...found,
    arguments: found.arguments ?? recorded?.arguments ?? null,
    outcome: found.outcome ?? recorded?.outcome ?? null,
    latency_ms: found.latency_ms || recorded?.latency_ms,
  };
  return { call, tree: { calls, isComplete: is_complete } };
}

function CallDetail({ id }) {
  const isNews = (event) => (event.call_id === id || event.parent === id) && event.type !== "CallProgress";
  const { data, problem } = useData(() => loadCall(id), [id], { isNews });
  if (!data) return problem ? html`<${Notice} tone="bad">${problem}<//>` : html`<${Empty}>Loading …<//>`;
  const { call, tree } = data;
  const isRunning = STATES.running(call);
  return html`<article>
    <${DetailHeading}>${call.tool}<//>
    <p class="subhead"><${Status} status=${call.status} kind=${call.kind} /></p>
    <${Facts} items=${[
      ["Call", call.call_id],
      ["User", call.user],
      ["Session", call.session],
      ["Run", call.turn],
      ["At", call.at ? html`<time>${formatTime(call.at)}</time>` : ""],
      ["Took", call.kind === "ended" && call.latency_ms ? formatDuration(call.latency_ms) : ""],
      ["Part of", call.parent && html`<a href=${link("calls", call.parent)}>${call.parent}</a>`],
    ]} />
    <${CallActions} call=${call} />
    ${isRunning && html`<${CallProgress} callId=${id} label="Running …" />`}
    ${tree.calls.length > 1 && html`<h3>Nested calls</h3><${Waterfall} calls=${tree.calls} current=${id} />`}
    ${!tree.isComplete && html`<p class="hint">Very many calls were made at that time: nested calls may be missing here.</p>`}
    <h3>Arguments</h3>
    ${call.arguments === null ? html`<p class="hint">They are not remembered.</p>` : html`<${JsonView} value=${call.arguments} label="Arguments" />`}
    ${call.outcome && !isRunning && html`<h3>Result</h3><${ResultView} outcome=${call.outcome} />`}
    ${!call.outcome && call.kind === "ended" && html`<h3>Result</h3><p class="hint">It is not remembered.</p>`}
  </article>`;
}

function CallActions({ call }) {
  const [notice, setNotice] = useState({ text: "", tone: "" });
  const runAgain = () => {
    prefilled.value = { tool: call.tool, arguments: call.arguments ?? {} };
    go("tools", call.tool);
  };
  const cancel = async () => {
    try {
      await post(`/api/calls/${encode(call.call_id)}/cancel`);
      setNotice({ text: "Cancelled.", tone: "good" });
    } catch (error) {
      setNotice({ text: error.message, tone: "bad" });
    }
  };
  return html`<div class="actions">
    <button type="button" onClick=${runAgain}>Run again</button>
    ${!["ended", "unknown"].includes(call.kind) && html`<button type="button" onClick=${cancel}>Cancel</button>`}
    ${(call.kind === "pending" || call.status === "unknown_effect") && html`<a href=${link("inbox", call.call_id)}>Answer it</a>`}
    <a href=${`#/audit/${encode(call.call_id)}`}>Audit of this call</a>
    ${notice.text && html`<span class=${notice.tone} role="status">${notice.text}</span>`}
  </div>`;
}
