// The controls of a form: text, number, checkbox, choices, and JSON for everything else.
import { html } from "../html.js";
import { createContext } from "../vendor/preact.js";
import { useContext, useId, useLayoutEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { parseExactJson } from "../exact_json.js";
import { isEqual, toJson, visible } from "../format.js";

const LONG_TEXT = 60;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const INTEGER = /^[+-]?\d+$/;
/** The function that a field tells its problem to, with its id; "" when it has none any more. */
export const ReportProblem = createContext(() => {});

/** Whether a field shows a password: who approves a call has to see it, and who types one hides it. */
export const ShowPasswords = createContext(false);

/** Tell the editor about a problem for as long as the field that shows it is there. */
function useProblem(problem) {
  const id = useId();
  const report = useContext(ReportProblem);
  useLayoutEffect(() => {
    report(id, problem);
    return () => report(id, "");
  }, [report, id, problem]);
}

export function choicesOf(schema) {
  return schema.choices ?? schema.enum?.map((each) => ({ value: each, label: String(each) }));
}

/** The value of a control, or what counts without one. */
export function shownValue(schema, value) {
  return value === undefined ? schema.default : value;
}

function placeholderOf(schema, value) {
  if (value === null) return "null";
  if (schema.default === undefined || schema.default === null) return "";
  return typeof schema.default === "string" ? visible(schema.default) : JSON.stringify(schema.default);
}

export function TextField({ id, hintId, schema, value, onChange, isNeeded, isDisabled }) {
  const text = String(value ?? "");
  const box = useRef(null);
  const typed = useRef(text);
  const caret = useRef(null);
  // Never another element while a person types: it would lose the focus. Only a text from elsewhere makes it larger.
  const [isLong, setIsLong] = useState(isLongText(text) || (schema.maxLength ?? 0) > 500);
  useLayoutEffect(() => {
    if (text !== typed.current && isLongText(text)) setIsLong(true);
    typed.current = text;
  }, [text]);
  useLayoutEffect(() => {
    if (caret.current === null) return;
    box.current.focus();
    box.current.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  }, [isLong]);
  const write = (next) => {
    typed.current = next;
    onChange(next === "" && !isNeeded ? undefined : next);
  };
  // An `<input>` would drop the line ends of a text that is pasted.
  const paste = (event) => {
    const pasted = event.clipboardData.getData("text").replace(/\r\n?/g, "\n");
    if (!pasted.includes("\n")) return;
    event.preventDefault();
    const { selectionStart, selectionEnd, value: before } = event.target;
    caret.current = selectionStart + pasted.length;
    setIsLong(true);
    write(before.slice(0, selectionStart) + pasted + before.slice(selectionEnd));
  };
  const shared = {
    id, ref: box, disabled: isDisabled, "aria-describedby": hintId, value: text, placeholder: placeholderOf(schema, value),
    onInput: (event) => write(event.target.value), spellcheck: false,
  };
  const isShown = useContext(ShowPasswords);
  const kind = schema.format === "password" && !isShown ? "password" : "text";
  const rows = Math.min(12, text.split("\n").length + 2);
  return html`${isLong && kind === "text"
      ? html`<textarea ...${shared} rows=${rows}></textarea>`
      : html`<input type=${kind} ...${shared} onPaste=${kind === "text" ? paste : undefined} autocomplete="off" />`}
    <${HiddenCharacters} text=${text} />`;
}

function isLongText(text) {
  return text.length > LONG_TEXT || text.includes("\n");
}

/** A browser draws a text in a field as it is: characters that hide or reverse others are told below it. */
function HiddenCharacters({ text }) {
  const shown = visible(text);
  return shown === text ? null : html`<p class="problem prose">Some characters cannot be seen: ${shown}</p>`;
}

/**
 * The text of a field whose value is parsed from it. It is kept as typed: "1." or "-" on the way to a number must not be
 * changed under the person's hands. A value from outside, for example by Undo, replaces it.
 */
function useParsedText({ value, onChange }, parse, write) {
  const [text, setText] = useState(() => write(value));
  const own = useRef(value);
  const { problem } = parse(text);
  useLayoutEffect(() => {
    if (Object.is(own.current, value)) return;
    own.current = value;
    setText(write(value));
  }, [value]);
  useProblem(problem);
  const change = (event) => {
    setText(event.target.value);
    const parsed = parse(event.target.value);
    if (parsed.problem) return;
    own.current = parsed.value;
    onChange(parsed.value);
  };
  return { text, change, problem };
}

export function NumberField(props) {
  const { id, hintId, schema, value, isDisabled } = props;
  const write = (number) => (number === undefined || number === null ? "" : String(number));
  const { text, change, problem } = useParsedText(props, (each) => parseNumber(each, schema), write);
  return html`<input type="text" inputmode="decimal" id=${id} value=${text} disabled=${isDisabled}
      aria-describedby=${hintId} aria-invalid=${problem !== ""} onInput=${change} autocomplete="off"
      placeholder=${placeholderOf(schema, value)} />
    ${problem && html`<p class="problem">${problem}</p>`}`;
}

function parseNumber(text, schema) {
  const trimmed = text.trim();
  if (trimmed === "") return { value: undefined, problem: "" };
  const number = Number(trimmed);
  if (!NUMBER.test(trimmed) || !Number.isFinite(number)) return { value: undefined, problem: `${visible(text)} is not a number.` };
  if (INTEGER.test(trimmed) && !Number.isSafeInteger(number)) return { value: BigInt(trimmed), problem: "" };
  if (schema.type === "integer" && !Number.isInteger(number)) return { value: undefined, problem: "It must be a whole number." };
  return { value: number, problem: "" };
}

export function Checkbox({ id, hintId, schema, value, onChange, isDisabled }) {
  return html`<input type="checkbox" id=${id} checked=${shownValue(schema, value) === true} disabled=${isDisabled}
    aria-describedby=${hintId} onChange=${(event) => onChange(event.target.checked)} />`;
}

export function Choice({ id, hintId, schema, value, onChange, isNeeded, isDisabled }) {
  const choices = choicesOf(schema);
  const index = choices.findIndex((each) => isEqual(each.value, value));
  const isOutside = index === -1 && value !== undefined;
  const byDefault = choices.find((each) => isEqual(each.value, schema.default));
  const emptyLabel = isNeeded ? "Choose …" : byDefault ? `${visible(byDefault.label)} (the default)` : "–";
  return html`<select id=${id} disabled=${isDisabled} aria-describedby=${hintId} value=${isOutside ? "given" : String(index)}
      onChange=${(event) => onChange(event.target.value === "given" ? value : choices[event.target.value]?.value)}>
    <option value="-1">${emptyLabel}</option>
    ${isOutside && html`<option value="given" selected>${value === null ? "null" : `${visible(toJson(value))}, which is no choice`}</option>`}
    ${choices.map((each, number) => html`<option value=${String(number)} selected=${number === index}>${visible(each.label)}</option>`)}
  </select>`;
}

export function ChoiceList({ labelId, schema, value, onChange, isDisabled }) {
  const shown = shownValue(schema, value);
  const chosen = Array.isArray(shown) ? shown : [];
  const toggle = (each) => {
    const isChosen = chosen.some((one) => isEqual(one, each));
    onChange(isChosen ? chosen.filter((one) => !isEqual(one, each)) : [...chosen, each]);
  };
  return html`<div class="choices" role="group" aria-labelledby=${labelId}>
    ${choicesOf(schema.items).map((each) => html`<label class="choice"><input type="checkbox" disabled=${isDisabled}
      checked=${chosen.some((one) => isEqual(one, each.value))} onChange=${() => toggle(each.value)} /> ${visible(each.label)}</label>`)}
  </div>`;
}

export function JsonControl(props) {
  return html`<${JsonField} ...${props} rows=${2} isBare=${true} placeholder=${placeholderOf(props.schema, props.value)} />`;
}

/** A value as JSON text; what is no JSON is a problem until it is mended. */
export function JsonField(props) {
  const { id, label, hintId, isDisabled, rows, placeholder = "", isBare = false, mustBeObject = false } = props;
  const ownId = useId();
  const write = (value) => (value === undefined ? "" : toJson(value));
  const { text, change, problem } = useParsedText(props, (each) => parseJson(each, mustBeObject), write);
  return html`
    ${!isBare && html`<label for=${id ?? ownId}>${label}</label>`}
    <textarea id=${id ?? ownId} class="code" rows=${rows} value=${text} disabled=${isDisabled} spellcheck=${false}
      placeholder=${placeholder} aria-describedby=${hintId} aria-invalid=${problem !== ""} onInput=${change}></textarea>
    <${HiddenCharacters} text=${text} />
    ${problem && html`<p class="problem">${problem}</p>`}`;
}

export function parseJson(text, mustBeObject = false) {
  if (text.trim() === "") return { value: mustBeObject ? {} : undefined, problem: "" };
  try {
    const value = parseExactJson(text);
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    if (mustBeObject && !isObject) return { value: undefined, problem: "Arguments are a JSON object: { … }." };
    return { value, problem: "" };
  } catch (error) {
    return { value: undefined, problem: `This is not JSON yet: ${error.message}` };
  }
}
