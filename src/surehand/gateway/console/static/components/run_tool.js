// Runs a tool from its form, with progress, cancel and result.
import { html } from "../html.js";
import { useEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get, post, send } from "../api.js";
import { readEvents } from "../stream.js";
import { link } from "../router.js";
import { onEvent } from "../store.js";
import { ArgumentsEditor } from "./schema_form.js";
import { defaultsOf } from "./schema.js";
import { Notice } from "./layout.js";
import { ProgressBar } from "./progress.js";
import { ResultView } from "./result_view.js";

const IDLE = { name: "idle", callId: "", progress: null, outcome: null, problem: "" };

export function RunTool({ tool, initial, extra }) {
  const [edited, setEdited] = useState({ value: initial ?? defaultsOf(tool.parameters), problem: "" });
  const [run, setRun] = useState(IDLE);
  const isGone = useRef(false);
  useEffect(() => () => (isGone.current = true), []);
  const update = (fields) => !isGone.current && setRun((before) => ({ ...before, ...fields }));
  useFollowUp(run, update);
  const isRunning = run.name === "running";
  const start = async (event) => {
    event.preventDefault();
    if (isRunning || edited.problem) return;
    setRun({ ...IDLE, name: "running" });
    try {
      await runTool(tool.name, edited.value, update);
    } catch (error) {
      update({ name: "idle", problem: error.message });
    }
  };
  return html`<form onSubmit=${start}>
    <h3>Arguments</h3>
    <${ArgumentsEditor} schema=${tool.parameters} value=${edited.value} isDisabled=${isRunning}
      onChange=${(value, problem) => setEdited({ value, problem })} />
    <div class="actions">
      ${/* Not disabled while it runs: the focus would be lost. */ ""}
      <button type="submit" class="primary" disabled=${edited.problem !== ""} aria-disabled=${isRunning}>Run</button>
      ${isRunning && html`<${CancelButton} callId=${run.callId} update=${update} />`}
      ${extra?.(edited.value)}
    </div>
    <${RunState} run=${run} />
  </form>`;
}

function CancelButton({ callId, update }) {
  const [isAsked, setIsAsked] = useState(false);
  const cancel = async () => {
    setIsAsked(true);
    try {
      await post(`/api/calls/${encode(callId)}/cancel`);
    } catch (error) {
      update({ problem: error.message });
      setIsAsked(false);
    }
  };
  return html`<button type="button" disabled=${!callId || isAsked} onClick=${cancel}>${isAsked ? "Cancelling …" : "Cancel"}</button>`;
}

function RunState({ run }) {
  const area = useRef(null);
  useEffect(() => {
    if (run.name !== "idle" || run.problem) area.current.scrollIntoView({ block: "nearest" });
  }, [run.name, run.problem]);
  return html`<div class="run-state" aria-live="polite" ref=${area}>
    ${run.problem && html`<${Notice} tone="bad">${run.problem}<//>`}
    ${run.name === "running" && html`<${ProgressBar} progress=${run.progress} label="Running …" />`}
    ${run.name === "waiting" && html`<${Notice} tone="waiting">
      The call waits for ${run.outcome.waiting_for === "approval" ? "approval" : "an answer"}.${" "}
      <a href=${link("inbox", run.callId)}>Answer it in the inbox</a>; its result appears here.<//>`}
    ${run.name === "ended" && html`<h3>Result</h3><${ResultView} key=${run.callId} outcome=${run.outcome} />
      <p><a href=${link("calls", run.callId)}>Show the call</a></p>`}
  </div>`;
}

/** Call a tool and report its events. */
async function runTool(name, values, update) {
  const controller = new AbortController();
  const response = await send(`/api/tools/${encode(name)}/call`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify({ arguments: values }),
    signal: controller.signal,
  });
  if (!response.headers.get("content-type").startsWith("text/event-stream")) {
    finish(await response.json(), update);
    return;
  }
  let outcome = null;
  await readEvents(response.body, controller, ({ data }) => {
    if (!data) return;
    const event = JSON.parse(data);
    if (event.type === "CallProgress") update({ callId: event.call_id, progress: event });
    else if (event.call_id) update({ callId: event.call_id });
    if (event.type === "CallEnded") outcome = event.truncated ? { ...event.outcome, isShort: true } : event.outcome;
  });
  if (!outcome) throw new Error("The connection was lost. The call goes on: look for it under Calls.");
  // A large output is left out of events; the call itself still has it.
  if (outcome.isShort) outcome = (await get(`/api/calls/${encode(outcome.call_id)}`)).outcome ?? outcome;
  finish(outcome, update);
}

function finish(outcome, update) {
  update({ name: outcome.status === "pending" ? "waiting" : "ended", callId: outcome.call_id, outcome });
}

/** After a wait, the end of the call is told by the stream of the page. */
function useFollowUp(run, update) {
  useEffect(() => {
    if (run.name !== "waiting") return undefined;
    const check = () =>
      get(`/api/calls/${encode(run.callId)}`).then(
        (call) => call.kind === "ended" && call.outcome && update({ name: "ended", outcome: call.outcome }),
        () => {},
      );
    check(); // it may have been answered already
    return onEvent((event) => {
      const isEnd = event.type === "CallEnded" && event.call_id === run.callId && event.outcome.status !== "pending";
      if (isEnd || event.type === "Reconnected") check();
    });
  }, [run.name, run.callId]);
}
