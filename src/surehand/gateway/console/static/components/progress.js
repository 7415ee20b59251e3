// The progress of a running call, from the event stream of the page.
import { html } from "../html.js";
import { useLayoutEffect, useState } from "../vendor/preact-hooks.js";
import { visible } from "../format.js";
import { onEvent } from "../store.js";

export function ProgressBar({ progress, label }) {
  const fraction = progress?.fraction;
  const text = [progress?.title, progress?.message].filter(Boolean).map(visible).join(": ") || label;
  const percent = typeof fraction === "number" ? ` ${Math.round(fraction * 100)} %` : "";
  return html`<div class="progress" role="status">
    ${typeof fraction === "number"
      ? html`<progress max="1" value=${fraction} aria-label=${text}></progress>`
      : html`<progress aria-label=${text}></progress>`}
    <span>${text}${percent}</span>
  </div>`;
}

export function CallProgress({ callId, label }) {
  const [progress, setProgress] = useState(null);
  // A layout effect, which runs before the browser can hear an event: the first progress may follow at once.
  useLayoutEffect(
    () => onEvent((event) => event.type === "CallProgress" && event.call_id === callId && setProgress(event)),
    [callId],
  );
  return html`<${ProgressBar} progress=${progress} label=${label} />`;
}
