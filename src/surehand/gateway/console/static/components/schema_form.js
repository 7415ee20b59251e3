// A form from a JSON Schema, with the same value as JSON beside it.
import { html } from "../html.js";
import { useId, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import { isEqual, visible } from "../format.js";
import {
  Checkbox, Choice, ChoiceList, JsonControl, JsonField, NumberField, ReportProblem, TextField, choicesOf, parseJson, shownValue,
} from "./form_controls.js";
import { describeType, hasNothingToFillIn, isRequired, resolveSchema, unpackJson } from "./schema.js";

const MAX_DEPTH = 4;

/**
 * Edits an object: `onChange(value, problem)`, where `problem` is "" or what a field says about a text that is no value.
 * Such a text is in the field alone: the value stays the last one that could be used. Another `version` makes new fields.
 */
export function ArgumentsEditor({ schema, value, onChange, isDisabled = false, version = 0 }) {
  const hasFields = Object.keys(schema?.properties ?? {}).length > 0;
  const [side, setSide] = useState(hasFields ? "form" : "json");
  const problems = useRef(new Map());
  const latest = useRef(null);
  latest.current = { value, onChange };
  const problem = () => problems.current.values().next().value ?? "";
  const change = (next) => onChange(next, problem());
  const report = useMemo(
    () => (id, text) => {
      const before = problem();
      if (text) problems.current.set(id, text);
      else problems.current.delete(id);
      if (problem() !== before) latest.current.onChange(latest.current.value, problem());
    },
    [],
  );
  if (hasNothingToFillIn(schema) && isEqual(value, {})) return html`<p class="hint">There is nothing to fill in.</p>`;
  return html`<${ReportProblem.Provider} value=${report}>
    <div class="editor">
      <div class="tabs small" role="group" aria-label="How to edit the arguments">
        ${hasFields && html`<${SideButton} name="form" side=${side} setSide=${setSide} label="Form" />`}
        <${SideButton} name="json" side=${side} setSide=${setSide} label="JSON" />
      </div>
      ${side === "form"
        ? html`<${ObjectFields} key=${version} root=${schema} schema=${schema} value=${value} onChange=${change}
            isDisabled=${isDisabled} depth=${0} />`
        : html`<${JsonField} key=${version} label="Arguments as JSON" value=${value} onChange=${change} isDisabled=${isDisabled}
            rows=${8} mustBeObject=${true} />`}
    </div>
  <//>`;
}

function SideButton({ name, side, setSide, label }) {
  return html`<button type="button" class="tab" aria-pressed=${side === name} onClick=${() => setSide(name)}>
    ${label}
  </button>`;
}

function ObjectFields({ root, schema, value, onChange, isDisabled, depth }) {
  const properties = Object.entries(schema.properties ?? {});
  const others = useOtherNames(properties, value).map((name) => [name, {}]);
  const change = (name, fieldValue) => {
    // By entries: an assignment to a name such as `__proto__` would not be a property.
    const rest = Object.entries(value ?? {}).filter(([each]) => each !== name);
    const entries = fieldValue === undefined ? rest : [...rest, [name, fieldValue]];
    onChange(Object.fromEntries(inSchemaOrder(entries, [...properties, ...others])));
  };
  const field = ([name, given], isOther) => html`<${Field} key=${name} name=${name} root=${root} isOther=${isOther}
    schema=${resolveSchema(given, root)} isNeeded=${isRequired(schema, name)} value=${ownValue(value, name)}
    onChange=${(next) => change(name, next)} isDisabled=${isDisabled} depth=${depth} />`;
  return html`<div class="fields">
    ${properties.map((each) => field(each, false))}${others.map((each) => field(each, true))}
  </div>`;
}

/** Names in the value that the schema does not describe. One that is emptied stays, so that it can be filled again. */
function useOtherNames(properties, value) {
  const seen = useRef([]);
  const described = new Set(properties.map(([name]) => name));
  const others = Object.keys(value ?? {}).filter((name) => !described.has(name));
  seen.current = [...new Set([...seen.current, ...others])];
  return seen.current;
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

function Field({ onChange, ...props }) {
  const { name, schema, isNeeded, isOther } = props;
  const id = useId();
  const hintId = `${id}-hint`;
  const [Control, value, change] = useControl(schema, props.value, props.depth, onChange);
  const meta = [isOther ? "not in the schema" : describeType(schema), isNeeded ? "required" : "", absence(schema, value, Control)];
  const isGroup = Control === NestedObject || Control === ChoiceList;
  const label = isGroup
    ? html`<span class="label" id=${`${id}-label`}>${visible(name)}</span>`
    : html`<label for=${id}>${visible(name)}</label>`;
  return html`<div class=${`field ${Control === Checkbox ? "check" : ""}`}>
    <div class="field-head">${label}<span class="meta">${meta.filter(Boolean).join(" · ")}</span></div>
    <${Control} ...${props} value=${value} onChange=${change} id=${id}
      hintId=${schema.description ? hintId : undefined} labelId=${`${id}-label`} />
    ${schema.description && html`<p class="hint" id=${hintId}>${visible(schema.description)}</p>`}
  </div>`;
}

/** The control of a field, and the value in it. Both are worked out for a value from outside only, never while a person types. */
function useControl(schema, given, depth, onChange) {
  const own = useRef(null);
  if (own.current === null || !Object.is(own.current.given, given)) {
    const value = unpackJson(schema, given);
    own.current = { given, value, Control: controlFor(schema, value, depth) };
  }
  const change = (next) => {
    own.current = { ...own.current, given: next, value: next };
    onChange(next);
  };
  return [own.current.Control, own.current.value, change];
}

/** The control that a schema asks for, if it can show the value as it is; else the value is shown as JSON. */
function controlFor(schema, value, depth) {
  const isAbsent = value === undefined || value === null;
  if (choicesOf(schema)) return Choice;
  if (schema.type === "array" && choicesOf(schema.items ?? {})) {
    return isAbsent || isChosenFrom(choicesOf(schema.items), value) ? ChoiceList : JsonControl;
  }
  if (schema.type === "boolean") return isAbsent || typeof value === "boolean" ? Checkbox : JsonControl;
  if (schema.type === "integer" || schema.type === "number") {
    return isAbsent || ["number", "bigint"].includes(typeof value) ? NumberField : JsonControl;
  }
  if (schema.type === "string") return isAbsent || typeof value === "string" ? TextField : JsonControl;
  const isObject = schema.type === "object" && Object.keys(schema.properties ?? {}).length > 0;
  const fits = isAbsent || (typeof value === "object" && !Array.isArray(value));
  if (isObject && fits && depth < MAX_DEPTH) return NestedObject;
  // A text without a schema needs no quotes, as long as nobody can take it for another value.
  return schema.type === undefined && isPlainText(value) ? TextField : JsonControl;
}

function isPlainText(value) {
  return typeof value === "string" && parseJson(value).problem !== "";
}

function isChosenFrom(choices, value) {
  return Array.isArray(value) && value.every((each) => choices.some((choice) => isEqual(choice.value, each)));
}

/** What a control that has no empty state shows instead of a missing value. */
function absence(schema, value, Control) {
  if (value === null) return "null";
  if (value !== undefined || ![Checkbox, ChoiceList, NestedObject].includes(Control)) return "";
  if (schema.default !== undefined && schema.default !== null) return "the default";
  return Control === Checkbox ? "not given" : "";
}

function NestedObject({ root, schema, value, onChange, isDisabled, depth, labelId }) {
  return html`<div class="nested" role="group" aria-labelledby=${labelId}>
    <${ObjectFields} root=${root} schema=${schema} value=${shownValue(schema, value) ?? {}} onChange=${onChange}
      isDisabled=${isDisabled} depth=${depth + 1} />
  </div>`;
}
