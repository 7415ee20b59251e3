// The arguments of a call that is answered, as its schema describes them.
import { html } from "../html.js";
import { visible } from "../format.js";
import { JsonView } from "./json_view.js";
import { resolveSchema } from "./schema.js";

export function ArgumentList({ schema = {}, values, title }) {
  const names = [...new Set([...Object.keys(schema.properties ?? {}), ...Object.keys(values)])];
  const known = names.filter((name) => Object.hasOwn(values, name) && values[name] !== null);
  if (!known.length) return null;
  return html`<h3>${title}</h3><dl class="arguments">
    ${known.map((name) => html`<div>
      <dt>${visible(name)}</dt>
      <dd><${ArgumentValue} value=${values[name]} />
        ${fieldHint(schema, name) && html`<p class="hint">${visible(fieldHint(schema, name))}</p>`}</dd>
    </div>`)}
  </dl>`;
}

function fieldHint(schema, name) {
  return resolveSchema(schema.properties?.[name], schema).description ?? "";
}

function ArgumentValue({ value }) {
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) {
    return html`<ul class="plain">${value.map((each) => html`<li>${visible(each)}</li>`)}</ul>`;
  }
  if (typeof value === "object") return html`<${JsonView} value=${value} />`;
  return html`<span class="prose">${visible(value)}</span>`;
}
