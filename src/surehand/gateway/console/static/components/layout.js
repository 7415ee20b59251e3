// The two panes of most pages: a list, and the detail of what is selected in it.
import { html } from "../html.js";
import { useEffect, useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { link } from "../router.js";

export function Panes({ page, id, list, detail }) {
  const detailPane = useRef(null);
  const listPane = useRef(null);
  useKeptFocus(detailPane);
  useOwnScrollPosition(listPane, Boolean(id));
  return html`<div class=${`panes ${id ? "has-detail" : ""}`}>
    <section class="list-pane" aria-label="List" ref=${listPane}>${list}</section>
    <section class="detail-pane" aria-label="Detail" ref=${detailPane}>
      ${id && html`<a class="back" href=${link(page)}>← Back to the list</a>`}
      ${detail}
    </section>
  </div>`;
}

/** In one column, where a detail takes the place of the list, it begins at its top, and the list is where it was before. */
function useOwnScrollPosition(listPane, hasDetail) {
  const listPosition = useRef(null);
  useLayoutEffect(() => {
    const isListHidden = listPane.current.offsetParent === null;
    if (isListHidden) scrollTo(0, 0);
    if (hasDetail) return;
    if (listPosition.current !== null) scrollTo(0, listPosition.current);
    const remember = () => (listPosition.current = scrollY);
    addEventListener("scroll", remember);
    return () => removeEventListener("scroll", remember);
  }, [hasDetail]);
}

/**
 * Keeps the focus in the pane when the control that had it goes, as a button does when it was pressed: it moves to the
 * heading, from where Tab goes on. A browser would move it to the page, before all navigation.
 */
function useKeptFocus(pane) {
  useEffect(() => {
    let last = null;
    let frame = 0;
    const remember = (event) => (last = event.target);
    const forget = () => (last = null);
    const check = () => {
      frame = 0;
      const isGone = last && !last.checkVisibility();
      if (!isGone || ![document.body, null, last].includes(document.activeElement)) return;
      last = null;
      pane.current?.querySelector("[data-detail]")?.focus({ preventScroll: true });
    };
    const observer = new MutationObserver(() => (frame ||= requestAnimationFrame(check)));
    observer.observe(pane.current, { subtree: true, childList: true, attributeFilter: ["hidden"] });
    const current = pane.current;
    current.addEventListener("focusin", remember);
    addEventListener("pointerdown", forget);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      current.removeEventListener("focusin", remember);
      removeEventListener("pointerdown", forget);
    };
  }, []);
}

export function DetailHeading({ children }) {
  return html`<h2 tabindex="-1" data-detail>${children}</h2>`;
}

export function Facts({ items }) {
  const known = items.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">
    ${known.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

export function Notice({ tone = "", children }) {
  return html`<div class=${`notice ${tone}`} role=${tone === "bad" ? "alert" : "status"}>${children}</div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}
