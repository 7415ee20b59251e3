// A form from a JSON Schema, with the same value as JSON beside it.
import { html } from "../html.js";
import { useEffect, useId, useState } from "../vendor/preact-hooks.js";
import { isEqual, toJson, visible } from "../format.js";
import { describeType, hasNothingToFillIn, isRequired, resolveSchema } from "./schema.js";

const MAX_DEPTH = 4;
const LONG_TEXT = 60;

/** Edits an object: `onChange(value, problem)`, where `problem` is "" or why the value cannot be used. */
export function ArgumentsEditor({ schema, value, onChange, isDisabled = false }) {
  const hasFields = Object.keys(schema?.properties ?? {}).length > 0;
  const [side, setSide] = useState(hasFields ? "form" : "json");
  if (hasNothingToFillIn(schema) && isEqual(value, {})) return html`<p class="hint">There is nothing to fill in.</p>`;
  return html`
    <div class="editor">
      <div class="tabs small" role="group" aria-label="How to edit the arguments">
        ${hasFields && html`<${SideButton} name="form" side=${side} setSide=${setSide} label="Form" />`}
        <${SideButton} name="json" side=${side} setSide=${setSide} label="JSON" />
      </div>
      ${side === "form"
        ? html`<${ObjectFields} root=${schema} schema=${schema} value=${value} onChange=${onChange}
            isDisabled=${isDisabled} depth=${0} />`
        : html`<${JsonField} label="Arguments as JSON" value=${value} onChange=${onChange} isDisabled=${isDisabled}
            rows=${8} mustBeObject=${true} />`}
    </div>`;
}

function SideButton({ name, side, setSide, label }) {
  return html`<button type="button" class="tab" aria-pressed=${side === name} onClick=${() => setSide(name)}>
    ${label}
  </button>`;
}

function ObjectFields({ root, schema, value, onChange, isDisabled, depth }) {
  const [problems, setProblems] = useState({});
  const properties = Object.entries(schema.properties ?? {});
  const change = (name, fieldValue, problem = "") => {
    // By entries: an assignment to a name such as `__proto__` would not be a property.
    const others = Object.entries(value ?? {}).filter(([each]) => each !== name);
    const entries = fieldValue === undefined ? others : [...others, [name, fieldValue]];
    const found = { ...problems, [name]: problem };
    setProblems(found);
    onChange(Object.fromEntries(inSchemaOrder(entries, properties)), Object.values(found).find(Boolean) ?? "");
  };
  return html`<div class="fields">
    ${properties.map(([name, given]) => html`<${Field} key=${name} name=${name} root=${root}
      schema=${resolveSchema(given, root)} isNeeded=${isRequired(schema, name)} value=${ownValue(value, name)}
      onChange=${(next, problem) => change(name, next, problem)} isDisabled=${isDisabled} depth=${depth} />`)}
  </div>`;
}

/** Sorts entries as the schema does: its first argument stays first wherever the arguments are shown. */
function inSchemaOrder(entries, properties) {
  const names = properties.map(([name]) => name);
  const place = (name) => (names.includes(name) ? names.indexOf(name) : names.length);
  return entries.toSorted(([one], [other]) => place(one) - place(other));
}

function ownValue(value, name) {
  return value !== null && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined;
}

function Field(props) {
  const { name, schema, isNeeded } = props;
  const id = useId();
  const hintId = `${id}-hint`;
  const meta = [describeType(schema), isNeeded ? "required" : ""].filter(Boolean).join(" · ");
  const Control = controlFor(schema, props.value, props.depth);
  const isGroup = Control === NestedObject || Control === ChoiceList;
  const label = isGroup
    ? html`<span class="label" id=${`${id}-label`}>${name}</span>`
    : html`<label for=${id}>${name}</label>`;
  return html`<div class=${`field ${Control === Checkbox ? "check" : ""}`}>
    <div class="field-head">${label}<span class="meta">${meta}</span></div>
    <${Control} ...${props} id=${id} hintId=${schema.description ? hintId : undefined} labelId=${`${id}-label`} />
    ${schema.description && html`<p class="hint" id=${hintId}>${schema.description}</p>`}
  </div>`;
}

function controlFor(schema, value, depth) {
  if (schema.enum || schema.choices) return Choice;
  if (schema.type === "array" && (schema.items?.enum ?? schema.items?.choices)) return ChoiceList;
  if (schema.type === "boolean") return Checkbox;
  if (schema.type === "integer" || schema.type === "number") return NumberField;
  if (schema.type === "string") return TextField;
  const isObject = schema.type === "object" && Object.keys(schema.properties ?? {}).length > 0;
  if (isObject && depth < MAX_DEPTH) return NestedObject;
  return JsonControl;
}

function TextField({ id, hintId, schema, value, onChange, isNeeded, isDisabled }) {
  const text = String(value ?? "");
  const change = (event) => {
    const next = event.target.value;
    onChange(next === "" && !isNeeded ? undefined : next);
  };
  const isLong = text.length > LONG_TEXT || text.includes("\n") || (schema.maxLength ?? 0) > 500;
  const shared = { id, disabled: isDisabled, "aria-describedby": hintId, onInput: change, value: text };
  const placeholder = schema.default === undefined ? "" : String(schema.default);
  const kind = schema.format === "password" ? "password" : "text";
  const rows = Math.min(12, text.split("\n").length + 2);
  return html`${isLong
      ? html`<textarea ...${shared} rows=${rows} spellcheck="false"></textarea>`
      : html`<input type=${kind} ...${shared} placeholder=${placeholder} autocomplete="off" spellcheck="false" />`}
    <${HiddenCharacters} text=${text} />`;
}

/** A browser draws a text in a field as it is: characters that hide or reverse others are told below it. */
function HiddenCharacters({ text }) {
  const shown = visible(text);
  return shown === text ? null : html`<p class="problem prose">Some characters cannot be seen: ${shown}</p>`;
}

function NumberField({ id, hintId, schema, value, onChange, isDisabled }) {
  // The text is kept as typed: "1." or "-" on the way to a number must not be changed under the person's hands.
  const [text, setText] = useState(value === undefined || value === null ? "" : String(value));
  useEffect(() => {
    if (parseNumber(text, schema).value !== value) setText(value === undefined || value === null ? "" : String(value));
  }, [value]);
  const change = (event) => {
    setText(event.target.value);
    const { value: number, problem } = parseNumber(event.target.value, schema);
    onChange(number, problem);
  };
  const { problem } = parseNumber(text, schema);
  return html`<input type="text" inputmode="decimal" id=${id} value=${text} disabled=${isDisabled}
      aria-describedby=${hintId} aria-invalid=${problem !== ""} onInput=${change} autocomplete="off"
      placeholder=${schema.default === undefined ? "" : String(schema.default)} />
    ${problem && html`<p class="problem">${problem}</p>`}`;
}

function parseNumber(text, schema) {
  if (text.trim() === "") return { value: undefined, problem: "" };
  const number = Number(text);
  if (Number.isNaN(number)) return { value: text, problem: `${text} is not a number.` };
  if (schema.type === "integer" && !Number.isInteger(number)) return { value: number, problem: "It must be a whole number." };
  return { value: number, problem: "" };
}

function Checkbox({ id, hintId, value, onChange, isDisabled }) {
  return html`<input type="checkbox" id=${id} checked=${value === true} disabled=${isDisabled} aria-describedby=${hintId}
    onChange=${(event) => onChange(event.target.checked)} />`;
}

function Choice({ id, hintId, schema, value, onChange, isNeeded, isDisabled }) {
  const choices = schema.choices ?? schema.enum.map((each) => ({ value: each, label: String(each) }));
  const index = choices.findIndex((each) => isEqual(each.value, value));
  return html`<select id=${id} disabled=${isDisabled} aria-describedby=${hintId} value=${String(index)}
      onChange=${(event) => onChange(choices[event.target.value]?.value)}>
    <option value="-1">${isNeeded ? "Choose …" : "–"}</option>
    ${choices.map((each, number) => html`<option value=${String(number)} selected=${number === index}>${each.label}</option>`)}
  </select>`;
}

function ChoiceList({ labelId, schema, value, onChange, isDisabled }) {
  const items = schema.items;
  const choices = items.choices ?? items.enum.map((each) => ({ value: each, label: String(each) }));
  const chosen = Array.isArray(value) ? value : [];
  const toggle = (each) => {
    const isChosen = chosen.some((one) => isEqual(one, each));
    onChange(isChosen ? chosen.filter((one) => !isEqual(one, each)) : [...chosen, each]);
  };
  return html`<div class="choices" role="group" aria-labelledby=${labelId}>
    ${choices.map((each) => html`<label class="choice"><input type="checkbox" disabled=${isDisabled}
      checked=${chosen.some((one) => isEqual(one, each.value))} onChange=${() => toggle(each.value)} /> ${each.label}</label>`)}
  </div>`;
}

function NestedObject({ root, schema, value, onChange, isDisabled, depth, labelId }) {
  return html`<div class="nested" role="group" aria-labelledby=${labelId}>
    <${ObjectFields} root=${root} schema=${schema} value=${value ?? {}} onChange=${onChange} isDisabled=${isDisabled}
      depth=${depth + 1} />
  </div>`;
}

function JsonControl(props) {
  return html`<${JsonField} ...${props} rows=${3} isBare=${true} />`;
}

/** A value as JSON text; what is no JSON is a problem until it is mended. */
export function JsonField({ id, label, hintId, value, onChange, isDisabled, rows, isBare = false, mustBeObject = false }) {
  const ownId = useId();
  const [text, setText] = useState(value === undefined ? "" : toJson(value));
  const parsed = parseJson(text, mustBeObject);
  useEffect(() => {
    if (parsed.problem === "" && !isEqual(parsed.value, value)) setText(value === undefined ? "" : toJson(value));
  }, [value]);
  const change = (event) => {
    setText(event.target.value);
    const next = parseJson(event.target.value, mustBeObject);
    onChange(next.problem ? value : next.value, next.problem);
  };
  return html`
    ${!isBare && html`<label for=${id ?? ownId}>${label}</label>`}
    <textarea id=${id ?? ownId} class="code" rows=${rows} value=${text} disabled=${isDisabled} spellcheck="false"
      aria-describedby=${hintId} aria-invalid=${parsed.problem !== ""} onInput=${change}></textarea>
    <${HiddenCharacters} text=${text} />
    ${parsed.problem && html`<p class="problem">${parsed.problem}</p>`}`;
}

export function parseJson(text, mustBeObject = false) {
  if (text.trim() === "") return { value: mustBeObject ? {} : undefined, problem: "" };
  try {
    const value = JSON.parse(text);
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    if (mustBeObject && !isObject) return { value: undefined, problem: "Arguments are a JSON object: { … }." };
    return { value, problem: "" };
  } catch (error) {
    return { value: undefined, problem: `This is not JSON yet: ${error.message}` };
  }
}
