// A question of a server: a form, an address to open, or several of them.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { ArgumentsEditor } from "./schema_form.js";
import { defaultsOf } from "./schema.js";
import { FreeAnswer } from "./client_answer.js";
import { JsonView } from "./json_view.js";
import { Reject } from "./reject.js";
import { SafeLink } from "./safe_link.js";

export function Elicitation({ wait, answer, isDisabled }) {
  const request = wait.request ?? {};
  return html`
    <${Question} request=${request} answer=${answer} isDisabled=${isDisabled} />
    <${Reject} answer=${answer} isDisabled=${isDisabled} />`;
}

function Question({ request, answer, isDisabled }) {
  if (request.mode === "form" && request.schema) {
    return html`<${FormQuestion} schema=${request.schema} answer=${answer} isDisabled=${isDisabled} />`;
  }
  if (request.mode === "url" && typeof request.url === "string") {
    return html`<p>The server asks you to open this address, and to come back when you are done:</p>
      <p><${SafeLink} url=${request.url} /></p>
      <div class="actions"><button type="button" class="primary" disabled=${isDisabled}
        onClick=${() => answer("result", { result: true })}>I am done there</button></div>`;
  }
  if (request.mode === "several" && request.requests) {
    return html`<${SeveralQuestions} requests=${request.requests} answer=${answer} isDisabled=${isDisabled} />`;
  }
  return html`<${JsonView} value=${request} label="Question" />
    <${FreeAnswer} answer=${answer} isDisabled=${isDisabled} />`;
}

function FormQuestion({ schema, answer, isDisabled }) {
  const [state, setState] = useState({ value: defaultsOf(schema), problem: "" });
  return html`<${ArgumentsEditor} schema=${schema} value=${state.value} isDisabled=${isDisabled}
      onChange=${(value, problem) => setState({ value, problem })} />
    <div class="actions"><button type="button" class="primary" disabled=${isDisabled || state.problem !== ""}
      onClick=${() => answer("result", { result: { action: "accept", content: state.value } })}>Send answer</button></div>`;
}

function SeveralQuestions({ requests, answer, isDisabled }) {
  const [values, setValues] = useState({});
  const entries = Object.entries(requests);
  const result = () => Object.fromEntries(entries.map(([key, request]) => [key, partAnswer(request, values[key])]));
  return html`${entries.map(([key, request]) => html`<fieldset class="part"><legend>${request.message ?? key}</legend>
      ${request.mode === "url"
        ? html`<p><${SafeLink} url=${request.url} /></p>`
        : html`<${ArgumentsEditor} schema=${request.schema ?? {}} value=${values[key] ?? defaultsOf(request.schema)}
            isDisabled=${isDisabled} onChange=${(value) => setValues({ ...values, [key]: value })} />`}
    </fieldset>`)}
    <div class="actions"><button type="button" class="primary" disabled=${isDisabled}
      onClick=${() => answer("result", { result: result() })}>Send answers</button></div>`;
}

function partAnswer(request, value) {
  const content = request.mode === "url" ? {} : (value ?? defaultsOf(request.schema));
  return { action: "accept", content };
}
