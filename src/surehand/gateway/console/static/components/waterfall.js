// Calls as a tree with bars on one time axis, drawn as SVG.
import { html } from "../html.js";
import { formatDuration } from "../format.js";
import { link } from "../router.js";
import { Status } from "./status.js";

const WIDTH = 300;
const MIN_BAR = 2;

export function Waterfall({ calls, current }) {
  const rows = treeRows(calls);
  const begin = Math.min(...calls.map(startOf));
  const end = Math.max(...calls.map(endOf), begin + 0.001);
  return html`<div class="table-scroll"><table class="waterfall">
    <thead><tr><th scope="col">Call</th><th scope="col">State</th><th scope="col">Time</th>
      <th scope="col">${formatDuration((end - begin) * 1000)}</th></tr></thead>
    <tbody>${rows.map(({ call, depth }) => html`<tr aria-current=${call.call_id === current}>
      <td><span class=${`tree depth-${Math.min(depth, 6)}`}><a href=${link("calls", call.call_id)}>${call.tool}</a></span></td>
      <td><${Status} status=${call.status} kind=${call.kind} /></td>
      <td class="number">${call.latency_ms ? formatDuration(call.latency_ms) : ""}</td>
      <td><${Bar} call=${call} begin=${begin} end=${end} /></td>
    </tr>`)}</tbody>
  </table></div>`;
}

function Bar({ call, begin, end }) {
  const scale = WIDTH / (end - begin);
  const x = (startOf(call) - begin) * scale;
  const width = Math.max((endOf(call) - startOf(call)) * scale, MIN_BAR);
  const tone = call.kind === "ended" ? (call.status === "ok" ? "good" : "bad") : "waiting";
  return html`<svg class="bar" viewBox=${`0 0 ${WIDTH} 12`} preserveAspectRatio="none" role="img"
    aria-label=${`${formatDuration((startOf(call) - begin) * 1000)} after the start`}>
    <rect class="track" x="0" y="5" width=${WIDTH} height="2" />
    <rect class=${tone} x=${Math.min(x, WIDTH - MIN_BAR)} y="1" width=${width} height="10" rx="2" /></svg>`;
}

function startOf(call) {
  return call.started_at ?? call.at - (call.latency_ms ?? 0) / 1000;
}

// `at` is when the end was written, which may be later than the end itself.
function endOf(call) {
  return call.latency_ms ? startOf(call) + call.latency_ms / 1000 : Math.max(call.at, startOf(call));
}

/** The calls in the order of a tree, each with its depth. */
function treeRows(calls) {
  const ids = new Set(calls.map((each) => each.call_id));
  const children = Map.groupBy(calls, (each) => (ids.has(each.parent) ? each.parent : null));
  const rows = [];
  const visit = (parent, depth) => {
    const sorted = [...(children.get(parent) ?? [])].sort((one, other) => startOf(one) - startOf(other));
    for (const call of sorted) {
      rows.push({ call, depth });
      visit(call.call_id, depth + 1);
    }
  };
  visit(null, 0);
  return rows;
}
