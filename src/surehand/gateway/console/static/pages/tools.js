// Tools: search, read and run them.
import { html } from "../html.js";
import { computed, signal } from "../vendor/signals.js";
import { useState } from "../vendor/preact-hooks.js";
import { encode, get, getAll, onForget } from "../api.js";
import { firstLine, formatNumber, visible } from "../format.js";
import { go, link } from "../router.js";
import { CopyAs } from "../components/copy_as.js";
import { DetailHeading, Empty, Facts, Notice, Panes } from "../components/layout.js";
import { Effects } from "../components/status.js";
import { RunTool } from "../components/run_tool.js";
import { useData } from "../components/use_data.js";
import { useListKeys } from "../components/list_keys.js";

const ROWS_AT_ONCE = 100;

const tools = signal([]);
const query = signal("");
const searchable = computed(() =>
  tools.value.map((tool) => ({ tool, text: `${tool.name} ${tool.description} ${tool.category}`.toLowerCase() })),
);
const matches = computed(() => {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = searchable.value.filter(({ text }) => words.every((word) => text.includes(word)));
  const isNamed = ({ tool }) => words.length > 0 && tool.name.toLowerCase().includes(words[0]);
  return [...found.filter(isNamed), ...found.filter((each) => !isNamed(each))].map(({ tool }) => tool);
});
/** The arguments that "Run again" on a call brings here, as `{tool, arguments}`. */
export const prefilled = signal(null);

const isComplete = signal(false);
onForget(() => {
  tools.value = [];
  isComplete.value = false;
  query.value = "";
  prefilled.value = null;
});

function isCatalogueNews(event) {
  return event.type === "CatalogueChanged";
}

let loadNumber = 0;
async function loadTools() {
  const number = ++loadNumber;
  // The first page is shown at once; a list that was complete stays until the new one is.
  const isFirst = !isComplete.value;
  const items = await getAll("/api/tools", {}, { onPage: (some) => isFirst && (tools.value = some) });
  if (number < loadNumber) return; // a later load has what this one has, and more
  tools.value = items;
  isComplete.value = true;
}

export function Tools({ id }) {
  const [rowCount, setRowCount] = useState(ROWS_AT_ONCE);
  const { problem } = useData(loadTools, [], { isNews: isCatalogueNews });
  const found = matches.value;
  const shown = found.slice(0, rowCount);
  const names = shown.map((each) => each.name);
  useListKeys(names, id, (name) => go("tools", name));
  const search = (event) => {
    query.value = event.target.value;
    setRowCount(ROWS_AT_ONCE);
  };
  const list = html`
    <div class="search">
      <label class="visually-hidden" for="tool-search">Search tools</label>
      <input id="tool-search" type="search" data-search placeholder="Search tools" value=${query.value} onInput=${search} />
      <span class="meta" aria-live="polite">${countText(found.length)}</span>
    </div>
    ${problem && html`<${Notice} tone="bad">${problem}<//>`}
    ${isComplete.value && found.length === 0 && html`<${Empty}>
      ${query.value ? "No tool matches." : "This gateway has no tools that you may use."}<//>`}
    <ul class="list">${shown.map((each) => html`<${ToolRow} key=${each.name} tool=${each} isCurrent=${each.name === id} />`)}</ul>
    ${found.length > shown.length && html`<button type="button" class="more" onClick=${() => setRowCount(rowCount + 5 * ROWS_AT_ONCE)}>
      Show more of ${formatNumber(found.length)}</button>`}`;
  const detail = id
    ? html`<${ToolDetail} key=${id} name=${id} />`
    : html`<${Empty}>Select a tool to see what it does, and to run it.<//>`;
  return html`<${Panes} page="tools" id=${id} list=${list} detail=${detail} />`;
}

function countText(count) {
  const total = tools.value.length;
  const suffix = isComplete.value ? "" : " …";
  return count === total ? `${formatNumber(total)} tools${suffix}` : `${formatNumber(count)} of ${formatNumber(total)}${suffix}`;
}

function ToolRow({ tool, isCurrent }) {
  return html`<li class="row-item" aria-current=${isCurrent}>
    <a href=${link("tools", tool.name)}>
      <span class="row-title"><strong>${tool.name}</strong><span><${Effects} effects=${tool.effects} /></span></span>
      <span class="row-text">${firstLine(visible(tool.description))}</span>
    </a>
  </li>`;
}

function ToolDetail({ name }) {
  const found = useData(() => get(`/api/tools/${encode(name)}`), [name], { isNews: isCatalogueNews });
  const tool = found.data ?? tools.value.find((each) => each.name === name);
  const [given] = useState(() => takePrefilled(name));
  if (!tool) return found.problem ? html`<${Notice} tone="bad">${found.problem}<//>` : html`<${Empty}>Loading …<//>`;
  return html`<article>
    ${found.problem && html`<${Notice} tone="bad">${found.problem}<//>`}
    <${DetailHeading}>${tool.name}<//>
    <p class="subhead"><${Effects} effects=${tool.effects} /></p>
    <p class="prose">${visible(tool.description)}</p>
    <${Facts} items=${[
      ["Category", tool.category],
      ["Kind", tool.kind],
      ["For", tool.audience],
      ["Also called", tool.aliases.join(", ")],
    ]} />
    <${RunTool} tool=${tool} initial=${given}
      extra=${(values) => html`<${CopyAs} tool=${tool.name} values=${values} />`} />
  </article>`;
}

/** The arguments that were brought here, once: the next visit begins with an empty form. */
function takePrefilled(name) {
  if (prefilled.value?.tool !== name) return null;
  const given = prefilled.value.arguments;
  prefilled.value = null;
  return given;
}
