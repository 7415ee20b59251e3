// Data that a component shows: loaded, kept current by events, and loaded again after a failure or a lost connection.
import { useLayoutEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { getPages } from "../api.js";
import { onEvent } from "../store.js";

const RETRY_MS = 3000;
const NEWS_DELAY_MS = 100;
const PAGE_ITEMS = 100;
const NOTHING = { data: null, problem: "", isLoaded: false };

/**
 * The answer of `load()` as `{data, problem, isLoaded, reload, update}`. It is loaded again when one of `inputs` changes, when
 * `isNews(event)`, and every `everyMs`. An answer that is older than the shown one is dropped, the problem of a failure
 * goes with the next answer, and what failed for want of a gateway is asked for again.
 */
export function useData(load, inputs = [], { isNews = () => false, everyMs = 0, delayMs = NEWS_DELAY_MS } = {}) {
  const [state, setState] = useState(NOTHING);
  // The functions of the newest rendering: an event is judged by what is shown now.
  const latest = useRef({});
  latest.current = { load, isNews };
  const reload = useRef(() => {});
  // A layout effect, which runs before the browser can hear an event: it may follow at once.
  useLayoutEffect(() => {
    let number = 0;
    let shownNumber = 0;
    let timer = 0;
    const show = (own, change) => {
      if (own < shownNumber) return;
      shownNumber = own;
      setState(change);
    };
    const run = async () => {
      clearTimeout(timer);
      timer = 0;
      const own = ++number;
      try {
        const data = await latest.current.load();
        show(own, { data, problem: "", isLoaded: true });
      } catch (error) {
        show(own, (before) => ({ ...before, problem: error.message, isLoaded: true }));
        if (isTemporary(error) && shownNumber < Infinity) timer ||= setTimeout(run, RETRY_MS);
      }
    };
    const runSoon = () => (timer ||= setTimeout(run, delayMs));
    reload.current = run;
    setState(NOTHING);
    run();
    const unsubscribe = onEvent((event) => {
      if (event.type === "Reconnected") run();
      else if (latest.current.isNews(event)) runSoon();
    });
    const interval = everyMs ? setInterval(run, everyMs) : 0;
    return () => {
      shownNumber = Infinity;
      clearTimeout(timer);
      clearInterval(interval);
      unsubscribe();
    };
  }, inputs);
  const update = (change) => setState((before) => (before.data === null ? before : { ...before, data: change(before.data) }));
  return { ...state, reload: () => reload.current(), update };
}

/**
 * The newest items of a list, `next` if there are older ones, and `loadMore` for these. All that was asked for stays
 * when the list is loaded again.
 */
export function usePages(path, query = {}, options = {}, adjust = async (loading) => loading) {
  const wantedCount = useRef(PAGE_ITEMS);
  const inputs = [path, JSON.stringify(query)];
  useLayoutEffect(() => {
    wantedCount.current = PAGE_ITEMS;
  }, inputs);
  const load = () => adjust(getPages(path, query, { maxItems: wantedCount.current }));
  const { data, ...rest } = useData(load, inputs, options);
  const loadMore = () => {
    wantedCount.current += PAGE_ITEMS;
    rest.reload();
  };
  return { ...rest, items: data?.items ?? [], next: data?.next ?? null, loadMore };
}

/** Whether a request that failed so may succeed a moment later: no gateway, or one that is busy. */
function isTemporary(error) {
  return error.status === 0 || error.status === 429 || error.status >= 500;
}
