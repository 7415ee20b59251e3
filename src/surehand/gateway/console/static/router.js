// The address of a page is in the hash, as `#/inbox/<call id>`: a link to a wait works without a route of the server.
import { computed, signal } from "./vendor/signals.js";

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

/** `{page, id}` of the current address. */
export const route = computed(() => {
  const [page = "", ...rest] = hash.value.replace(/^#\/?/, "").split("/");
  return { page: page || "inbox", id: decode(rest.join("/")) };
});

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(page, id = "") {
  return id ? `#/${page}/${encodeURIComponent(id)}` : `#/${page}`;
}

export function go(page, id = "") {
  location.hash = link(page, id);
}
