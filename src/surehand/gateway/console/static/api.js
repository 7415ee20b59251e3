// Requests to the HTTP API, with the token of this browser tab.
import { signal } from "./vendor/signals.js";
import { parseExactJson } from "./exact_json.js";

const TOKEN_KEY = "surehand.token";
// The gateway may be mounted below a path: its API is beside the folder of this file.
const BASE_URL = new URL("..", import.meta.url);

// In the session storage only: it ends with the tab, and no request of another site carries it, as a cookie would be.
export const token = signal(sessionStorage.getItem(TOKEN_KEY) ?? "");
export const needsToken = signal(false);
export const tokenProblem = signal("");

export function saveToken(value) {
  sessionStorage.setItem(TOKEN_KEY, value);
  token.value = value;
  tokenProblem.value = "";
  needsToken.value = false;
}

const tokenListeners = new Set();
let reads = new AbortController();

/** Call a function when the token is forgotten or refused: nothing that it let the page see may stay. */
export function onForget(forget) {
  tokenListeners.add(forget);
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN_KEY);
  token.value = "";
  askForToken("");
}

/** Show the token form instead of the page, and forget what was loaded with an earlier token. */
export function askForToken(problem) {
  reads.abort();
  reads = new AbortController();
  tokenProblem.value = problem;
  needsToken.value = true;
  for (const forget of tokenListeners) forget();
}

/** Tell the page that the gateway refuses a token, unless another one was given meanwhile. */
export function reportRefusedToken(refused) {
  if (refused === token.value) askForToken(refused ? "The gateway does not accept this token." : "");
}

/** A refused request, with the code and the sentence of its problem details. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The gateway answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? "";
  }
}

export function apiUrl(path) {
  return new URL(path.replace(/^\//, ""), BASE_URL);
}

export function authorization() {
  return token.value ? { Authorization: `Bearer ${token.value}` } : {};
}

/** Send a request; throws `ApiError` for a refused one, and shows the token form after a 401. */
export async function send(path, { headers = {}, ...options } = {}) {
  const sentToken = token.value;
  let response;
  try {
    response = await fetch(apiUrl(path), { ...options, headers: { ...authorization(), ...headers }, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", detail: "The gateway cannot be reached. Is it running?" });
  }
  if (response.ok) return response;
  if (response.status === 401) reportRefusedToken(sentToken);
  throw new ApiError(response.status, await readProblem(response));
}

async function readProblem(response) {
  try {
    return await response.json();
  } catch {
    return { detail: `The gateway answered ${response.status} ${response.statusText}.` };
  }
}

async function readJson(response) {
  return response.status === 204 ? null : parseExactJson(await response.text());
}

export async function get(path, query = {}, options = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const suffix = given.length ? `?${new URLSearchParams(given)}` : "";
  // What a forgotten token has asked for must not arrive any more; actions go on.
  return readJson(await send(path + suffix, { signal: reads.signal, ...options }));
}

export async function post(path, body = {}, options = {}) {
  const headers = { "Content-Type": "application/json", ...options.headers };
  return readJson(await send(path, { ...options, method: "POST", headers, body: JSON.stringify(body) }));
}

const MAX_PAGE_ITEMS = 200;

/** All pages of a list, or as many as have `maxItems`; `onPage` sees the items so far. */
export async function getAll(path, query = {}, options = {}) {
  return (await getPages(path, query, options)).items;
}

/** The first items of a list, at least `maxItems` if there are so many, and `next`, where further ones begin. */
export async function getPages(path, query = {}, { maxItems = Infinity, onPage = () => {} } = {}) {
  const items = [];
  let next;
  do {
    const limit = Math.min(MAX_PAGE_ITEMS, maxItems - items.length);
    const page = await get(path, { limit, ...query, cursor: next });
    items.push(...page.items);
    next = page.next;
    onPage([...items]);
  } while (next && items.length < maxItems);
  return { items, next };
}

export const encode = encodeURIComponent;
