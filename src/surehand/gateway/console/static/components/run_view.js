// A run of an agent: its texts and calls as they happen, what it waits for, and what it used.
import { html } from "../html.js";
import { useEffect, useState } from "../vendor/preact-hooks.js";
import { encode, post } from "../api.js";
import { countOf, formatNumber, visible } from "../format.js";
import { link } from "../router.js";
import { Notice } from "./layout.js";
import { END_STATUSES, useRun } from "./live_run.js";
import { Status } from "./status.js";
import { ToolCard } from "./tool_card.js";

/**
 * `messages` are `{text, after}`: what was sent to the run, and after how many of its steps. `isNew` says that the gateway
 * may not know the run yet.
 */
export function RunView({ runId, isNew = false, isChat = false, problem = "", messages = [], onReport, children }) {
  const { run, live, failure } = useRun(runId, isNew);
  useEffect(() => {
    if (run) onReport?.({ status: run.status, text: run.text, steps: run.steps.length });
  }, [run?.status, run?.text, run?.steps.length]);
  useEffect(() => {
    if (problem && !run) onReport?.({ status: "failed", text: "", steps: null });
  }, [problem]);
  if (problem && !run) return html`<${Notice} tone="bad">${problem}<//>`;
  if (!run && failure) return html`<${Notice} tone="bad">${failure}<//>`;
  if (!run) return html`<${Messages} messages=${messages} /><p class="meta" role="status">Thinking …</p>`;
  const steps = run.steps;
  const isOver = END_STATUSES.has(run.status);
  const shownIds = new Set(steps.flatMap((step) => step.calls.map((call) => call.call_id)));
  const others = [...live.calls.values()].filter((call) => !shownIds.has(call.call_id));
  const ownIds = new Set([...shownIds, ...live.calls.keys()]);
  const below = run.waiting.filter((wait) => !ownIds.has(wait.call_id));
  const texts = isOver ? [steps.length === 0 ? run.text : ""] : live.texts;
  return html`<div class="run">
    ${children?.(run)}
    <${Messages} messages=${messages.filter((each) => each.after === 0)} />
    ${steps.map((step, index) => html`<${Step} key=${step.step} step=${step} liveCalls=${live.calls} />
      <${Messages} messages=${messages.filter((each) => each.after === index + 1)} />`)}
    ${others.map((call) => html`<${ToolCard} key=${call.call_id} call=${call} />`)}
    ${below.map((wait) => html`<${SubAgentWait} key=${wait.call_id} wait=${wait} />`)}
    ${texts.filter(Boolean).map((text) => html`<p class="bubble prose">${visible(text)}</p>`)}
    ${!isOver && [...live.drafts.values()].map((call) => html`<${ToolCard} key=${call.call_id} call=${call} />`)}
    <${Messages} messages=${messages.filter((each) => each.after > steps.length)} />
    ${!isOver && live.retry && html`<${Notice} tone="waiting">The model did not answer: ${visible(live.retry)} It is asked again.<//>`}
    ${failure && html`<${Notice} tone="bad">${failure}<//>`}
    ${run.status !== "done" && run.reason && html`<${Notice} tone=${run.status === "failed" ? "bad" : "waiting"}>${visible(run.reason)}<//>`}
    <${RunFooter} run=${run} isChat=${isChat} />
  </div>`;
}

function Step({ step, liveCalls }) {
  return html`${step.text && html`<p class="bubble prose">${visible(step.text)}</p>`}
    ${step.calls.map((call) => html`<${ToolCard} key=${call.call_id} call=${{ ...call, ...endedFields(call), ...liveCalls.get(call.call_id) }} />`)}`;
}

function endedFields(call) {
  return call.outcome && call.outcome.status !== "pending" ? { isEnded: true } : {};
}

function Messages({ messages }) {
  return messages.map((each) => html`<p class="bubble own prose" aria-label="Your message to the agent">${visible(each.text)}</p>`);
}

/** A call that an agent below waits for: it is answered here, and the runs above go on. */
function SubAgentWait({ wait }) {
  return html`<div class="sub-agent">
    ${wait.path.length > 1 && html`<p class="meta">Asked by ${visible(wait.path.join(" → "))}</p>`}
    <${ToolCard} call=${{ ...wait, outcome: { status: "pending", waiting_for: wait.waiting_for } }} />
  </div>`;
}

function RunFooter({ run, isChat }) {
  const [stop, setStop] = useState({ text: "", problem: "" });
  const usage = run.usage ?? {};
  const cancel = async () => {
    setStop({ text: "Stopping …", problem: "" });
    try {
      await post(`/api/runs/${encode(run.run_id)}/cancel`);
      setStop({ text: "You stopped it.", problem: "" });
    } catch (error) {
      setStop({ text: "", problem: error.message });
    }
  };
  const parts = [
    usage.requests && countOf(usage.requests, "request"),
    usage.tokens_in && `${formatNumber(usage.tokens_in)} tokens in`,
    usage.tokens_out && `${formatNumber(usage.tokens_out)} out`,
    usage.calls && countOf(usage.calls, "call"),
    usage.cost && `$${usage.cost.toFixed(4)}`,
  ].filter(Boolean);
  const canStop = !END_STATUSES.has(run.status);
  return html`<p class="row small-gap run-footer"><${Status} status=${run.status} />
    <span class="meta">${parts.join(" · ")}</span>
    ${isChat && html`<a class="meta" href=${link("agents", `run:${run.run_id}`)}>Steps</a>`}
    ${canStop && html`<button type="button" class="quiet" disabled=${stop.text !== ""} onClick=${cancel}>Stop the run</button>`}
    <span class="meta" role="status">${stop.text}</span>
    ${stop.problem && html`<span class="problem" role="alert">${stop.problem}</span>`}</p>`;
}
