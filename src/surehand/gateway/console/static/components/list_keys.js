// Keys in lists: j and k move, Enter opens, / searches.
import { useEffect } from "../vendor/preact-hooks.js";

export function isTyping(event) {
  const target = event.target;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Move through `ids` with j and k; `select` gets the new one. Enter moves the focus to the detail. */
export function useListKeys(ids, selected, select) {
  useEffect(() => {
    const onKeyDown = (event) => {
      if (event.key === "Escape" && isTyping(event)) event.target.blur();
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") {
        const search = document.querySelector("[data-search]");
        if (search) event.preventDefault();
        search?.focus();
      }
      const index = ids.indexOf(selected);
      if (event.key === "j" && ids.length) select(ids[Math.min(index + 1, ids.length - 1)]);
      if (event.key === "k" && ids.length) select(ids[Math.max(index - 1, 0)]);
      const isOnPage = event.target === document.body || event.target.closest?.(".list-pane");
      if (event.key === "Enter" && selected && isOnPage) document.querySelector("[data-detail]")?.focus();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [ids, selected]);
  useEffect(() => {
    document.querySelector('.list-pane [aria-current="true"]')?.scrollIntoView({ block: "nearest" });
  }, [selected]);
}
