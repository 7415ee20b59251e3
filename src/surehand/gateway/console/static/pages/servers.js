// Servers: where tools come from, how those servers are, and definitions that wait to be accepted.
import { html } from "../html.js";
import { useEffect, useState } from "../vendor/preact-hooks.js";
import { encode, getAll, post } from "../api.js";
import { countOf, formatNumber, sentenceCase, visible } from "../format.js";
import { go, link } from "../router.js";
import { DetailHeading, Empty, Facts, Notice, Panes } from "../components/layout.js";
import { Diff } from "../components/diff.js";
import { SafeLink } from "../components/safe_link.js";
import { Status } from "../components/status.js";
import { useData } from "../components/use_data.js";
import { useListKeys } from "../components/list_keys.js";

const REFRESH_MS = 5000;
const SIGN_IN_REFRESH_MS = 1000;

export function Servers({ id }) {
  // The state of a connection has no event of its own.
  const servers = useData(() => getAll("/api/servers"), [], { isNews: (event) => event.type === "CatalogueChanged", everyMs: REFRESH_MS });
  const state = { ...servers, items: servers.data ?? [] };
  useListKeys(state.items.map((each) => each.name), id, (name) => go("servers", name));
  const current = state.items.find((each) => each.name === id);
  const list = html`
    ${state.problem && html`<${Notice} tone="bad">${state.problem}<//>`}
    ${state.isLoaded && !state.problem && !state.items.length && html`<${Empty}>No server is configured: all tools are Python functions.<//>`}
    <ul class="list">${state.items.map((each) => html`<${ServerRow} key=${each.name} server=${each} isCurrent=${each.name === id} />`)}</ul>`;
  const detail = current
    ? html`<${ServerDetail} key=${current.name} server=${current} reload=${servers.reload} />`
    : html`<${Empty}>${id && servers.data ? "There is no such server." : "Select a server to see its state and its protocol, and to list its tools again."}<//>`;
  return html`<${Panes} page="servers" id=${id} list=${list} detail=${detail} />`;
}

function ServerRow({ server, isCurrent }) {
  return html`<li class="row-item" aria-current=${isCurrent}><a href=${link("servers", server.name)}>
    <span class="row-title"><strong>${server.name}</strong><${Status} status=${server.state} /></span>
    <span class="row-text">${server.address}</span>
    <span class="meta">${server.kind} · ${countOf(server.tools, "tool")}${server.changes.length ? ` · ${server.changes.length} held back` : ""}</span>
  </a></li>`;
}

function ServerDetail({ server, reload }) {
  // Kept here: an accepted change is not listed any more.
  const [accepted, setAccepted] = useState([]);
  return html`<article>
    <${DetailHeading}>${server.name}<//>
    <p class="subhead"><${Status} status=${server.state} /></p>
    ${server.error && html`<${Notice} tone="bad"><strong>Last error</strong><p class="prose">${visible(server.error)}</p><//>`}
    <${Facts} items=${[
      ["Kind", server.kind],
      ["Address", server.address],
      ["Server", [server.server_name, server.server_version].filter(Boolean).map(visible).join(" ")],
      ["Protocol", server.protocol],
      ["Tools", formatNumber(server.tools)],
    ]} />
    <${ServerActions} server=${server} reload=${reload} />
    ${server.sign_in && html`<${SignIn} server=${server} reload=${reload} />`}
    ${accepted.map((each) => html`<${Notice} tone="good"><strong>Accepted:</strong> ${visible(each)} can be called with its new definition.<//>`)}
    ${server.changes.length > 0 && html`<h3>Held back</h3>
      <p class="hint">These definitions have changed since they were accepted. Their tools are not called until you accept them.</p>
      ${server.changes.map((each) => html`<${Change} key=${each.sha256} server=${server.name} change=${each}
        onAccepted=${() => setAccepted((before) => [...before, each.tool ?? server.name])} reload=${reload} />`)}`}
  </article>`;
}

const SIGN_IN_WORDS = { needed: "nobody is signed in", running: "waits for you in the other tab", done: "signed in" };

/** Signs the person in to a server: the address opens in another tab, and this page hears of the end by itself. */
function SignIn({ server, reload }) {
  const [state, setState] = useState({ isBusy: false, url: "", problem: "" });
  const begin = async () => {
    setState({ isBusy: true, url: "", problem: "" });
    try {
      const { url } = await post(`/api/servers/${encode(server.name)}/sign-in`);
      setState({ isBusy: false, url: url ?? "", problem: "" });
    } catch (error) {
      setState({ isBusy: false, url: "", problem: error.message });
    }
    reload();
  };
  const isRunning = server.sign_in === "running";
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(reload, SIGN_IN_REFRESH_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const problem = state.problem || (isRunning ? "" : server.sign_in_error);
  return html`<section aria-label="Sign-in"><h3>Sign-in</h3>
    <p class="row"><span role="status">${sentenceCase(SIGN_IN_WORDS[server.sign_in])}.</span>
      <button type="button" class=${server.sign_in === "needed" ? "primary" : ""} disabled=${state.isBusy} onClick=${begin}>
        ${{ needed: "Sign in", running: "Start over", done: "Check the sign-in" }[server.sign_in]}</button></p>
    ${isRunning && state.url && html`<p><${SafeLink} url=${state.url}>Open the sign-in page of ${new URL(state.url).host}<//></p>
      <p class="hint">The browser must run on the machine of the gateway, to which that page sends you back.</p>`}
    ${problem && html`<${Notice} tone="bad">${problem}<//>`}
  </section>`;
}

function ServerActions({ server, reload }) {
  const [state, setState] = useState({ busy: "", text: "", tone: "" });
  const act = async (action, path, done) => {
    setState({ busy: action, text: "", tone: "" });
    try {
      await post(path);
      setState({ busy: "", text: done, tone: "good" });
    } catch (error) {
      setState({ busy: "", text: error.message, tone: "bad" });
    }
    reload();
  };
  const path = `/api/servers/${encode(server.name)}`;
  return html`<div class="actions">
    <button type="button" disabled=${state.busy !== "" || !server.can_refresh}
      onClick=${() => act("refresh", `${path}/refresh`, "Its tools were listed again.")}>
      ${state.busy === "refresh" ? "Refreshing …" : "Refresh"}</button>
    ${!server.can_refresh && html`<span class="hint">Its tools were read when the gateway started.</span>`}
  </div>
  ${state.text && html`<${Notice} tone=${state.tone}>${state.text}<//>`}`;
}

function Change({ server, change, onAccepted, reload }) {
  const [state, setState] = useState({ isBusy: false, problem: "" });
  const accept = async () => {
    setState({ isBusy: true, problem: "" });
    try {
      await post(`/api/servers/${encode(server)}/accept`, { tool: change.tool, sha256: change.sha256 });
      onAccepted();
      reload();
    } catch (error) {
      setState({ isBusy: false, problem: error.message });
    }
  };
  return html`<section class="card" aria-label=${`Change of ${change.tool ?? server}`}>
    <div class="card-head"><strong>${visible(change.tool ?? server)}</strong>
      <span class="meta">${change.first_seen ? `first seen ${change.first_seen}` : ""}</span></div>
    <p class="prose">${visible(change.summary)}</p>
    <${Diff} patch=${change.diff} />
    ${state.problem && html`<${Notice} tone="bad">${state.problem}<//>`}
    <div class="actions"><button type="button" class="primary" disabled=${state.isBusy} onClick=${accept}>${state.isBusy ? "Accepting …" : "Accept"}</button></div>
  </section>`;
}
