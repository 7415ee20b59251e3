// A call of an agent or in a space, in whatever state it is; a wait can be answered in it.
import { html } from "../html.js";
import { visible } from "../format.js";
import { link } from "../router.js";
import { waits } from "../store.js";
import { JsonView } from "./json_view.js";
import { usePinnedWait } from "./pinned_wait.js";
import { ProgressBar } from "./progress.js";
import { ResultView } from "./result_view.js";
import { Status } from "./status.js";
import { WaitDetail, WaitStatus } from "./wait_detail.js";

export function ToolCard({ call }) {
  const wait = waits.value.find((each) => each.call_id === call.call_id);
  const [shown, pin] = usePinnedWait(wait);
  const isEnded = call.isEnded && !wait;
  const isAtWork = call.isRunning && !wait && !isEnded;
  const name = visible(call.tool);
  return html`<section class="card" aria-label=${`Call of ${name}`}>
    <div class="card-head">${call.isDraft ? html`<strong>${name}</strong>` : html`<a href=${link("calls", call.call_id)}><strong>${name}</strong></a>`}
      <${CardStatus} call=${call} wait=${wait} isEnded=${isEnded} /></div>
    ${call.isDraft && html`<pre class="output" aria-label="Arguments, as they are written">${visible(call.written) || "…"}</pre>`}
    ${!wait && !call.isDraft && html`<details><summary>Arguments</summary><${JsonView} value=${parsed(call.arguments)} label="Arguments" /></details>`}
    ${isAtWork && html`<${ProgressBar} progress=${call.progress} label=${call.isQueued ? queueText(call) : "Running …"} />`}
    ${shown && html`<${WaitDetail} key=${shown.round} wait=${shown} isOpen=${Boolean(wait)} isInline=${true} pin=${pin} />`}
    ${isEnded && html`<details open=${call.outcome.status === "failed"}><summary>Result</summary><${ResultView} outcome=${call.outcome} /></details>`}
  </section>`;
}

// The queue tells no one when the turn of a call comes: its progress or its end does.
function queueText(call) {
  return `Waits for its turn in the queue ${visible(call.queue)}, at place ${call.position} when it came …`;
}

function CardStatus({ call, wait, isEnded }) {
  if (wait) return html`<${WaitStatus} wait=${wait} />`;
  if (call.isDraft) return html`<${Status} status="writing" />`;
  if (isEnded) return html`<${Status} status=${call.outcome.code ?? "ok"} />`;
  if (call.isRunning) return html`<${Status} status=${call.isQueued ? "queued" : "running"} />`;
  if (call.outcome?.status === "pending") return html`<${Status} status=${call.outcome.waiting_for} kind="pending" />`;
  return html`<${Status} status="running" />`;
}

// Models write arguments as JSON text.
function parsed(values) {
  if (typeof values !== "string") return values ?? {};
  try {
    return JSON.parse(values);
  } catch {
    return values;
  }
}
