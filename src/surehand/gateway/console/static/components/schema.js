// What a form needs to know of a JSON Schema: references, nullable types and choices made plain.
import { parseExactJson } from "../exact_json.js";

const MAX_REFERENCES = 8;

/** The schema of a value, with `$ref` followed, `null` left out, and titled choices as `choices`. */
export function resolveSchema(schema, root, depth = 0) {
  if (schema === null || typeof schema !== "object") return {};
  if (typeof schema.$ref === "string" && depth < MAX_REFERENCES) {
    const { $ref, ...rest } = schema;
    return resolveSchema({ ...lookUp($ref, root), ...rest }, root, depth + 1);
  }
  const options = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(options)) {
    const { anyOf, oneOf, ...rest } = schema;
    const choices = constChoices(options);
    if (choices) return { ...rest, choices };
    const possible = options.filter((each) => each?.type !== "null");
    if (possible.length === 1) return resolveSchema({ ...possible[0], ...rest }, root, depth + 1);
    return rest;
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((each) => each !== "null");
    return resolveSchema({ ...schema, type: types.length === 1 ? types[0] : undefined }, root, depth + 1);
  }
  if (schema.type === "array" && schema.items) {
    return { ...schema, items: resolveSchema(schema.items, root, depth + 1) };
  }
  return schema;
}

function lookUp(reference, root) {
  const parts = reference.replace(/^#\/?/, "").split("/").filter(Boolean);
  return parts.reduce((value, part) => value?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root) ?? {};
}

/** Choices of a list of `{const, title}`; null if it is anything else. */
function constChoices(options) {
  const isConst = options.length > 0 && options.every((each) => each && typeof each === "object" && "const" in each);
  if (!isConst) return null;
  return options.map((each) => ({ value: each.const, label: choiceLabel(each) }));
}

/** A title with the value behind it: the value is what runs, and a title may say something else. */
function choiceLabel({ const: value, title }) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return title === undefined || String(title) === text ? text : `${title} (${text})`;
}

/** Whether an object of this schema has no properties; without `properties` it may have any. */
export function hasNothingToFillIn(schema) {
  const isEmpty = schema?.properties !== undefined && Object.keys(schema.properties).length === 0;
  return isEmpty && !schema.additionalProperties && !schema.patternProperties;
}

export function isRequired(schema, name) {
  return Array.isArray(schema.required) && schema.required.includes(name);
}

export function describeType(schema) {
  if (schema.enum || schema.choices) return "choice";
  if (schema.type === "array") return schema.items?.type ? `list of ${schema.items.type}` : "list";
  return schema.format ? `${schema.type ?? "any"}, ${schema.format}` : (schema.type ?? "any JSON");
}

/** The values that a form begins with: the defaults of the schema, and no for a yes or no that is required. */
export function defaultsOf(schema) {
  const entries = Object.entries(schema?.properties ?? {}).map(([name, given]) => {
    const { default: value, type } = resolveSchema(given, schema);
    const isNo = type === "boolean" && isRequired(schema, name);
    return [name, value ?? (isNo ? false : undefined)];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

const TYPE_TESTS = {
  object: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
  array: Array.isArray,
  boolean: (value) => typeof value === "boolean",
  integer: (value) => typeof value === "number" || typeof value === "bigint",
  number: (value) => typeof value === "number" || typeof value === "bigint",
};

/** A value that a model has written as JSON text, as what the text says, if that is what the schema asks for. */
export function unpackJson(schema, value) {
  const isOfType = TYPE_TESTS[schema.type];
  if (typeof value !== "string" || !isOfType || schema.enum || schema.choices) return value;
  try {
    const unpacked = parseExactJson(value);
    return isOfType(unpacked) ? unpacked : value;
  } catch {
    return value;
  }
}
