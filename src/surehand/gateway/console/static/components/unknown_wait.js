// A wait of a kind that this page does not know: its JSON, an answer, and a no.
import { html } from "../html.js";
import { FreeAnswer } from "./client_answer.js";
import { JsonView } from "./json_view.js";
import { Reject } from "./reject.js";

export function UnknownWait({ wait, answer, isDisabled }) {
  return html`<p class="hint">This console does not know waits of the kind “${wait.waiting_for}”, so here it is as JSON.</p>
    <${JsonView} value=${wait} label="The wait" />
    <${FreeAnswer} answer=${answer} isDisabled=${isDisabled} />
    <${Reject} answer=${answer} isDisabled=${isDisabled} />`;
}
