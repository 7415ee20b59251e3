// The button that says no, with a reason for the caller.
import { html } from "../html.js";
import { useId, useState } from "../vendor/preact-hooks.js";

export function Reject({ answer, isDisabled }) {
  const [reason, setReason] = useState("");
  const id = useId();
  return html`<div class="reject">
    <label for=${id}>Reason</label>
    <input id=${id} type="text" value=${reason} disabled=${isDisabled} placeholder="Optional; the caller is told"
      onInput=${(event) => setReason(event.target.value)} />
    <button type="button" class="danger" disabled=${isDisabled} onClick=${() => answer("reject", { reason })}>Reject</button>
  </div>`;
}
