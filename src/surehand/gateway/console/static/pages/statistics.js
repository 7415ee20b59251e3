// Statistics: latency and failures by tool, and queues, as charts.
import { html } from "../html.js";
import { get } from "../api.js";
import { formatDuration, formatNumber } from "../format.js";
import { BarChart } from "../components/bar_chart.js";
import { Empty, Notice } from "../components/layout.js";
import { useData } from "../components/use_data.js";

const MAX_BARS = 15;
const REFRESH_MS = 1000;

export function Statistics() {
  const { data, problem } = useData(() => get("/api/statistics"), [], { isNews: isOfCall, delayMs: REFRESH_MS });
  if (!data) return problem ? html`<${Notice} tone="bad">${problem}<//>` : html`<${Empty}>Loading …<//>`;
  const tools = [...data.tools];
  const slowest = tools.toSorted((one, other) => other.p95_ms - one.p95_ms).slice(0, MAX_BARS);
  const failing = tools.filter((each) => each.failures > 0).toSorted((one, other) => other.failures - one.failures).slice(0, MAX_BARS);
  return html`<section class="page">
    ${problem && html`<${Notice} tone="bad">${problem}<//>`}
    <dl class="numbers">
      <${Figure} name="Calls" value=${tools.reduce((sum, each) => sum + each.calls, 0)} />
      <${Figure} name="Failures" value=${tools.reduce((sum, each) => sum + each.failures, 0)} />
      <${Figure} name="Running" value=${data.running} />
      <${Figure} name="Waiting" value=${data.pending} />
      <${Figure} name="Tools" value=${data.tool_count} />
    </dl>
    <div class="charts">
      <${Chart} title="Latency by tool" hint="Median, and the time that 95 of 100 calls stay below">
        <${BarChart} label="Latency by tool" format=${formatDuration}
          rows=${slowest.map((each) => ({ name: each.name, value: each.p95_ms, part: each.p50_ms }))} />
      <//>
      <${Chart} title="Failures by tool" hint="Failed calls, of all calls of the tool">
        <${BarChart} label="Failures by tool" format=${formatNumber} tone="bad" empty="No call has failed."
          rows=${failing.map((each) => ({ name: each.name, value: each.failures, text: `${each.failures} of ${each.calls}` }))} />
      <//>
      <${Chart} title="Queues" hint="Calls that run and that wait for their turn">
        <${BarChart} label="Queues" format=${formatNumber} empty="No queue is configured."
          rows=${data.queues.map((each) => ({
            name: each.name, value: each.in_use + each.waiting, part: each.in_use,
            text: `${each.in_use}${each.capacity === null ? "" : ` of ${each.capacity}`} running, ${each.waiting} waiting`,
          }))} />
      <//>
    </div>
    <p class="hint">${data.since
      ? `All figures of tools are of the newest ${formatNumber(data.sample)} calls that the store remembers.`
      : "All figures are of this process, since it started."}</p>
  </section>`;
}

function isOfCall(event) {
  return event.type.startsWith("Call") && event.type !== "CallProgress";
}

function Figure({ name, value }) {
  return html`<div><dt>${name}</dt><dd>${formatNumber(value)}</dd></div>`;
}

function Chart({ title, hint, children }) {
  return html`<figure class="chart"><figcaption><strong>${title}</strong><span class="hint">${hint}</span></figcaption>${children}</figure>`;
}
