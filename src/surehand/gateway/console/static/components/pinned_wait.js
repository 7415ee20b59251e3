// A wait in a card: it stays while its answer is sent, and until the person has read that it came too late.
import { useState } from "../vendor/preact-hooks.js";

/** The wait to show, which is the pinned one or else `open`, and the function that pins one; `null` unpins it. */
export function usePinnedWait(open) {
  const [pinned, pin] = useState(null);
  return [pinned ?? open, pin];
}
