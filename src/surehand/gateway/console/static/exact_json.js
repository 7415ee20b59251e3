// JSON whose integers stay as they are written: a number of JavaScript is rounded beyond 2^53.

const LONG_INTEGER = /\d{16}/;

// `JSON.stringify` asks this of every BigInt. A browser without `rawJSON` does not tell how a number was written either.
BigInt.prototype.toJSON = function () {
  return JSON.rawJSON ? JSON.rawJSON(String(this)) : Number(this);
};

/** Like `JSON.parse`, with a BigInt for every integer that a number cannot hold. */
export function parseExactJson(text) {
  return LONG_INTEGER.test(text) ? JSON.parse(text, keepInteger) : JSON.parse(text);
}

function keepInteger(_, value, context) {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
  return isRounded ? BigInt(context.source) : value;
}
