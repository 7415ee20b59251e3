// A run of an agent: its texts and calls as they happen, what it waits for, and what it used.
import { html } from "../html.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get, post } from "../api.js";
import { countOf, formatNumber, visible } from "../format.js";
import { onEvent } from "../store.js";
import { Notice } from "./layout.js";
import { Status } from "./status.js";
import { ToolCard } from "./tool_card.js";

const ENDED = new Set(["done", "stopped", "failed"]);
const RELOAD_MS = 100;

export function RunView({ runId, isNew = false, isChat = false, problem = "", onReport }) {
  const { run, liveText, liveCalls, failure } = useRun(runId, isNew);
  useEffect(() => {
    if (run) onReport?.({ status: run.status, text: run.text });
  }, [run?.status, run?.text]);
  useEffect(() => {
    if (problem) onReport?.({ status: "failed", text: "" });
  }, [problem]);
  if (problem) return html`<${Notice} tone="bad">${problem}<//>`;
  if (failure && !run) return html`<${Notice} tone="bad">${failure}<//>`;
  if (!run) return html`<p class="meta" role="status">Thinking …</p>`;
  const isStored = run.steps.length > 0;
  const shownIds = new Set(run.steps.flatMap((step) => step.calls.map((call) => call.call_id)));
  const others = [...liveCalls.values()].filter((call) => !shownIds.has(call.call_id));
  const lastText = !isStored && ENDED.has(run.status) ? run.text : liveText;
  return html`<div class="run">
    ${run.steps.map((step) => html`<${Step} key=${step.step} step=${step} liveCalls=${liveCalls} />`)}
    ${others.map((call) => html`<${ToolCard} key=${call.call_id} call=${call} />`)}
    ${lastText && html`<p class="bubble prose">${visible(lastText)}</p>`}
    ${run.status !== "done" && run.reason && html`<${Notice} tone=${run.status === "waiting" ? "waiting" : "bad"}>${run.reason}<//>`}
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

function RunFooter({ run, isChat }) {
  const [problem, setProblem] = useState("");
  const usage = run.usage ?? {};
  const cancel = () => post(`/api/runs/${encode(run.run_id)}/cancel`).catch((error) => setProblem(error.message));
  const parts = [
    usage.requests && countOf(usage.requests, "request"),
    usage.tokens_in && `${formatNumber(usage.tokens_in)} tokens in`,
    usage.tokens_out && `${formatNumber(usage.tokens_out)} out`,
    usage.calls && countOf(usage.calls, "call"),
    usage.cost && `$${usage.cost.toFixed(4)}`,
  ].filter(Boolean);
  return html`<p class="row small-gap run-footer"><${Status} status=${run.status} />
    <span class="meta">${parts.join(" · ")}</span>
    ${isChat && html`<a class="meta" href=${`#/agents/${encode(`run:${run.run_id}`)}`}>Steps</a>`}
    ${!ENDED.has(run.status) && html`<button type="button" class="quiet" onClick=${cancel}>Stop the run</button>`}
    ${problem && html`<span class="problem">${problem}</span>`}</p>`;
}

/** The run as the gateway returns it, and the texts and calls of later events. */
function useRun(runId, isNew) {
  const [run, setRun] = useState(null);
  const [failure, setFailure] = useState("");
  const [liveText, setLiveText] = useState("");
  const [liveCalls, setLiveCalls] = useState(new Map());
  const stepCount = useRef(isNew ? -1 : 0);
  // A layout effect, which runs before the browser can hear an event: a run may be over before the next frame is drawn.
  useLayoutEffect(() => {
    let timer = 0;
    const load = async () => {
      timer = 0;
      try {
        const found = await get(`/api/runs/${encode(runId)}`);
        // A stored step has the text that was live before.
        if (found.steps.length > stepCount.current) setLiveText("");
        stepCount.current = found.steps.length;
        setRun(found);
      } catch (error) {
        setFailure(error.message);
      }
    };
    const loadSoon = () => (timer ||= setTimeout(load, RELOAD_MS));
    // The gateway may not know a run that was just sent: its first event loads it.
    if (!isNew) load();
    const unsubscribe = onEvent((event) => {
      if (event.type === "Reconnected" && stepCount.current >= 0) load();
      if (event.run_id !== runId && event.turn !== runId) return;
      if (event.type === "TextDelta") setLiveText((before) => before + event.text);
      else if (event.call_id && event.type.startsWith("Call")) setLiveCalls((before) => applyCallEvent(before, event));
      if (!["TextDelta", "ToolInputDelta", "CallProgress"].includes(event.type)) loadSoon();
    });
    return () => {
      clearTimeout(timer);
      unsubscribe();
    };
  }, [runId]);
  return { run, liveText, liveCalls, failure };
}

function applyCallEvent(calls, event) {
  const known = calls.get(event.call_id) ?? { call_id: event.call_id, tool: event.tool };
  const fields = {};
  if (event.type === "CallStarted") Object.assign(fields, { arguments: event.arguments, isRunning: true });
  if (event.type === "CallProgress") fields.progress = event;
  if (event.type === "CallPending") Object.assign(fields, { isRunning: false, outcome: { status: "pending", waiting_for: event.waiting_for } });
  if (event.type === "CallSettled" || event.type === "CallResumed") fields.isRunning = true;
  if (event.type === "CallEnded") Object.assign(fields, { outcome: event.outcome, isRunning: false, isEnded: event.outcome.status !== "pending" });
  return new Map(calls).set(event.call_id, { ...known, ...fields });
}
