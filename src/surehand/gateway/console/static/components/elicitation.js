// A question of a server: a form, an address to open, or several of them.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { visible } from "../format.js";
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
      <${Address} request=${request} />
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

/** An address and whose it is, because the text of an address may look like another one's. */
function Address({ request }) {
  return html`<p class="wrap"><${SafeLink} url=${request.url} /></p>
    ${request.host && html`<p class="hint">It belongs to the host <strong>${visible(request.host)}</strong>.</p>`}
    ${request.looks_like && html`<p class="problem">The host only looks like ${visible(request.looks_like)}.</p>`}`;
}

function SeveralQuestions({ requests, answer, isDisabled }) {
  const entries = Object.entries(requests);
  const [parts, setParts] = useState(() =>
    Object.fromEntries(entries.map(([key, { schema }]) => [key, { value: defaultsOf(schema), problem: "" }])),
  );
  // Two parts may report in one step: each must see what the other has set.
  const change = (key, value, problem) => setParts((before) => ({ ...before, [key]: { value, problem } }));
  const hasProblem = Object.values(parts).some((each) => each.problem);
  const result = () => Object.fromEntries(entries.map(([key, { mode }]) => [key, partAnswer(mode, parts[key].value)]));
  return html`${entries.map(([key, request]) => html`<fieldset class="part" key=${key}><legend>${visible(request.message || key)}</legend>
      ${request.mode === "url"
        ? html`<p>Open this address, and come back when you are done:</p><${Address} request=${request} />`
        : html`<${ArgumentsEditor} schema=${request.schema ?? {}} value=${parts[key].value} isDisabled=${isDisabled}
            onChange=${(value, problem) => change(key, value, problem)} />`}
    </fieldset>`)}
    <div class="actions"><button type="button" class="primary" disabled=${isDisabled || hasProblem}
      onClick=${() => answer("result", { result: result() })}>Send answers</button></div>`;
}

function partAnswer(mode, value) {
  return mode === "url" ? { action: "accept" } : { action: "accept", content: value };
}
