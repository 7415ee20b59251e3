// A client tool: its arguments as its schema describes them, and the answer that the person gives.
import { html } from "../html.js";
import { useEffect, useId, useState } from "../vendor/preact-hooks.js";
import { encode, get } from "../api.js";
import { visible } from "../format.js";
import { AsJson } from "./as_json.js";
import { parseJson } from "./form_controls.js";
import { ArgumentList } from "./argument_list.js";
import { Reject } from "./reject.js";
import { defaultsOf } from "./schema.js";
import { ArgumentsEditor } from "./schema_form.js";

const OPTION_NAMES = ["options", "choices"];

export function ClientAnswer({ wait, answer, isDisabled }) {
  const [tool, setTool] = useState(null);
  useEffect(() => {
    get(`/api/tools/${encode(wait.tool)}`, { session: wait.session }).then(setTool, () => setTool(null));
  }, [wait.tool]);
  const schema = tool?.parameters ?? {};
  const answerSchema = wait.request?.schema;
  return html`
    ${tool?.description && html`<p class="hint prose">${visible(tool.description)}</p>`}
    <${ArgumentList} schema=${schema} values=${wait.arguments ?? {}} title="What is asked" />
    <h3>Your answer</h3>
    ${answerSchema
      ? html`<${FormAnswer} schema=${answerSchema} answer=${answer} isDisabled=${isDisabled} />`
      : html`<${FreeAnswer} options=${findOptions(wait.arguments)} answer=${answer} isDisabled=${isDisabled} />`}
    <${Reject} answer=${answer} isDisabled=${isDisabled} />`;
}

function findOptions(values) {
  const found = OPTION_NAMES.map((name) => values?.[name]).find((each) => Array.isArray(each) && each.length);
  return found?.every((each) => typeof each === "string") ? found : [];
}

function FormAnswer({ schema, answer, isDisabled }) {
  const [state, setState] = useState({ value: defaultsOf(schema), problem: "" });
  return html`<${ArgumentsEditor} schema=${schema} value=${state.value} isDisabled=${isDisabled}
      onChange=${(value, problem) => setState({ value, problem })} />
    <div class="actions"><button type="button" class="primary" disabled=${isDisabled || state.problem !== ""}
      onClick=${() => answer("result", { result: state.value })}>Answer</button></div>`;
}

/** One of the options, or a text, or any JSON. */
export function FreeAnswer({ options = [], answer, isDisabled, label = "Answer" }) {
  const [text, setText] = useState("");
  const [isJson, setIsJson] = useState(false);
  const id = useId();
  const parsed = isJson ? parseJson(text) : { value: text, problem: "" };
  return html`
    ${options.length > 0 && html`<div class="option-buttons" role="group" aria-label="Options">
      ${options.map((each) => html`<button type="button" disabled=${isDisabled}
        onClick=${() => answer("result", { result: each })}>${visible(each)}</button>`)}
    </div>`}
    <div class="field">
      <div class="field-head"><label for=${id}>${options.length ? "Another answer" : label}</label>
        <${AsJson} isJson=${isJson} setIsJson=${setIsJson} isDisabled=${isDisabled} /></div>
      <textarea id=${id} rows="3" class=${isJson ? "code" : ""} value=${text} disabled=${isDisabled}
        onInput=${(event) => setText(event.target.value)}></textarea>
      ${parsed.problem && html`<p class="problem">${parsed.problem}</p>`}
    </div>
    <div class="actions"><button type="button" class="primary" disabled=${isDisabled || parsed.problem !== ""}
      onClick=${() => answer("result", { result: parsed.value ?? null })}>Send answer</button></div>`;
}
