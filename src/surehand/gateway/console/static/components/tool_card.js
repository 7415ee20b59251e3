// A call of an agent or in a space, in whatever state it is; a wait can be answered in it.
import { html } from "../html.js";
import { link } from "../router.js";
import { waits } from "../store.js";
import { JsonView } from "./json_view.js";
import { useKeptWait } from "./kept_wait.js";
import { ProgressBar } from "./progress.js";
import { ResultView } from "./result_view.js";
import { Status } from "./status.js";
import { WaitDetail } from "./wait_detail.js";

export function ToolCard({ call }) {
  const wait = waits.value.find((each) => each.call_id === call.call_id);
  const [shown, keep] = useKeptWait(wait);
  const isEnded = call.isEnded && !wait;
  return html`<section class="card" aria-label=${`Call of ${call.tool}`}>
    <div class="card-head"><a href=${link("calls", call.call_id)}><strong>${call.tool}</strong></a>
      <${CardStatus} call=${call} wait=${wait} isEnded=${isEnded} /></div>
    ${!wait && html`<details><summary>Arguments</summary><${JsonView} value=${parsed(call.arguments)} label="Arguments" /></details>`}
    ${call.isRunning && !wait && !isEnded && html`<${ProgressBar} progress=${call.progress} label="Running …" />`}
    ${shown && html`<${WaitDetail} key=${shown.round} wait=${shown} isOpen=${Boolean(wait)} isInline=${true} keep=${keep} />`}
    ${isEnded && html`<details open=${call.outcome.status === "failed"}><summary>Result</summary><${ResultView} outcome=${call.outcome} /></details>`}
  </section>`;
}

function CardStatus({ call, wait, isEnded }) {
  if (wait) return html`<${Status} status=${wait.waiting_for} kind="pending" />`;
  if (isEnded) return html`<${Status} status=${call.outcome.code ?? "ok"} />`;
  if (call.isRunning) return html`<${Status} status="running" />`;
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
