// A call whose process died while it ran: a person finds out whether it has happened, and says so.
import { html } from "../html.js";
import { useId, useState } from "../vendor/preact-hooks.js";
import { visible } from "../format.js";
import { AsJson } from "./as_json.js";
import { ArgumentList } from "./argument_list.js";
import { parseJson } from "./form_controls.js";

export function isUnknownEffect(wait) {
  return wait.waiting_for === "result" && wait.request?.unknown_effect === true;
}

export function UnknownEffect({ wait, answer, isDisabled }) {
  return html`
    <p class="hint">Look in the system that it would have changed. The call is not run again, whatever you answer, and the
      first answer counts.</p>
    <${ArgumentList} values=${wait.arguments ?? {}} title="What it was called with" />
    <${Happened} answer=${answer} isDisabled=${isDisabled} />
    <${NotHappened} tool=${wait.tool} answer=${answer} isDisabled=${isDisabled} />`;
}

function Happened({ answer, isDisabled }) {
  const [text, setText] = useState("");
  const [isJson, setIsJson] = useState(false);
  const id = useId();
  const parsed = isJson ? parseJson(text) : { value: text === "" ? null : text, problem: "" };
  return html`<fieldset class="part"><legend>It has happened</legend>
    <div class="field-head"><label for=${id}>Its result</label><${AsJson} isJson=${isJson} setIsJson=${setIsJson} isDisabled=${isDisabled} /></div>
    <textarea id=${id} rows="2" class=${isJson ? "code" : ""} value=${text} disabled=${isDisabled}
      placeholder="Optional; the caller gets it" onInput=${(event) => setText(event.target.value)}></textarea>
    ${parsed.problem && html`<p class="problem">${parsed.problem}</p>`}
    <div class="actions"><button type="button" class="primary" disabled=${isDisabled || parsed.problem !== ""}
      onClick=${() => answer("result", { result: parsed.value ?? null })}>It happened</button></div>
  </fieldset>`;
}

function NotHappened({ tool, answer, isDisabled }) {
  const [text, setText] = useState("");
  const id = useId();
  const failed = text.trim() || `${visible(tool)} has not happened: its process died before.`;
  return html`<fieldset class="part"><legend>It has not happened</legend>
    <label for=${id}>What the caller is told</label>
    <input id=${id} type="text" value=${text} disabled=${isDisabled} placeholder=${failed}
      onInput=${(event) => setText(event.target.value)} />
    <div class="actions"><button type="button" disabled=${isDisabled}
      onClick=${() => answer("result", { failed })}>It did not happen</button></div>
  </fieldset>`;
}
