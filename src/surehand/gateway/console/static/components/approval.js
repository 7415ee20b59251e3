// An approval: what will happen, with arguments that can be edited first.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { isEqual } from "../format.js";
import { ShowPasswords } from "./form_controls.js";
import { ArgumentsEditor } from "./schema_form.js";
import { Notice } from "./layout.js";
import { Preview } from "./preview.js";
import { Reject } from "./reject.js";

export function Approval({ wait, answer, isDisabled }) {
  const original = wait.arguments ?? {};
  const [edited, setEdited] = useState({ value: original, problem: "" });
  const [undoCount, setUndoCount] = useState(0);
  const [isAlways, setIsAlways] = useState(false);
  const hasEdits = !isEqual(edited.value, original);
  const undo = () => {
    setEdited({ value: original, problem: "" });
    setUndoCount(undoCount + 1);
  };
  const preview = wait.request?.preview;
  const approve = () => answer("approve", { always: isAlways, ...(hasEdits ? { arguments: edited.value } : {}) });
  return html`
    ${preview !== null && preview !== undefined && html`<h3>What will happen</h3><${Preview} preview=${preview} />`}
    <h3>Arguments</h3>
    <${ShowPasswords.Provider} value=${true}>
      <${ArgumentsEditor} schema=${wait.request?.schema ?? {}} value=${edited.value} isDisabled=${isDisabled}
        version=${undoCount} onChange=${(value, problem) => setEdited({ value, problem })} />
    <//>
    <div class="decision">
    ${(hasEdits || edited.problem) && html`<${Notice} tone="waiting">
      You have edited the arguments. ${preview ? "The preview above still shows them as they were asked." : ""}
      ${edited.problem ? "The field above says what is wrong with it." : ""}
      <button type="button" class="quiet" onClick=${undo}>Undo</button>
    <//>`}
    <div class="actions">
      <button type="button" class="primary" disabled=${isDisabled || edited.problem !== ""} onClick=${approve}>Approve</button>
      <label class="choice"><input type="checkbox" checked=${isAlways} disabled=${isDisabled}
        onChange=${(event) => setIsAlways(event.target.checked)} /> Always allow this tool${wait.user ? ` for ${wait.user}` : ""}</label>
    </div>
    <${Reject} answer=${answer} isDisabled=${isDisabled} /></div>`;
}
