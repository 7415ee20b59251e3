// A wait in a card: it stays while its answer is sent, and until the person has read that it came too late.
import { useState } from "../vendor/preact-hooks.js";

/** The wait to show, which is `open` or an earlier one that was kept, and the function that keeps one; `null` lets it go. */
export function useKeptWait(open) {
  const [kept, keep] = useState(null);
  return [kept ?? open, keep];
}
