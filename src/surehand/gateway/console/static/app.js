// The frame of the console: navigation, the state of the stream, the token form, and the current page.
import { html } from "./html.js";
import { Component, render } from "./vendor/preact.js";
import { effect } from "./vendor/signals.js";
import { useEffect, useId, useState } from "./vendor/preact-hooks.js";
import { forgetToken, needsToken, saveToken, token, tokenProblem } from "./api.js";
import { link, route } from "./router.js";
import { pageTitle, restart, start, streamState, waitCount } from "./store.js";
import { Agents } from "./pages/agents.js";
import { Audit } from "./pages/audit.js";
import { Calls } from "./pages/calls.js";
import { Inbox } from "./pages/inbox.js";
import { Servers } from "./pages/servers.js";
import { Spaces } from "./pages/spaces.js";
import { Statistics } from "./pages/statistics.js";
import { Tools } from "./pages/tools.js";

const PAGES = { Inbox, Tools, Calls, Spaces, Agents, Servers, Audit, Statistics };
// What the keys do on a page: only some have a list to move in, and only some a field to search with.
const PAGES_WITH_LIST = new Set(["Inbox", "Tools", "Calls", "Spaces", "Agents", "Servers", "Audit"]);
const PAGES_WITH_SEARCH = new Set(["Tools", "Calls", "Audit"]);
const NAME_BY_ROUTE = Object.fromEntries(Object.keys(PAGES).map((name) => [name.toLowerCase(), name]));

function App() {
  const { page, id } = route.value;
  const name = NAME_BY_ROUTE[page] ?? "Inbox";
  const Page = PAGES[name];
  useEffect(() => {
    pageTitle.value = name;
    // On a phone the navigation is wider than the screen.
    document.querySelector('nav [aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [name]);
  return html`
    <a class="skip" href="#main" onClick=${focusMain}>Skip to the page</a>
    <header class="side">
      <a class="brand" href=${link("inbox")}><img src="console/icon.svg" alt="" width="22" height="22" /> surehand</a>
      <nav aria-label="Pages">${Object.keys(PAGES).map((each) => html`<${NavLink} name=${each} isCurrent=${each === name} />`)}</nav>
      <${SideFooter} page=${name} />
    </header>
    <main id="main" tabindex="-1">
      <${StreamNotice} />
      <h1>${name}</h1>
      ${needsToken.value ? html`<${TokenForm} />` : html`<${PageGuard} key=${name}><${Page} key=${name} id=${id} /><//>`}
    </main>`;
}

/** Shows what went wrong in a page instead of an empty frame. */
class PageGuard extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<div class="notice bad" role="alert">This page cannot be shown: ${String(error.message)}</div>`;
  }
}

function focusMain(event) {
  // The hash is the address of the page, so the link must not change it.
  event.preventDefault();
  document.getElementById("main").focus();
}

function NavLink({ name, isCurrent }) {
  const count = name === "Inbox" && waitCount.value > 0 ? waitCount.value : 0;
  return html`<a href=${link(name.toLowerCase())} aria-current=${isCurrent ? "page" : undefined}>${name}
    ${count > 0 && html`<span class="count" aria-label=${`${count} waiting`}>${count}</span>`}</a>`;
}

function SideFooter({ page }) {
  return html`<div class="side-footer">
    <span class=${`live ${streamState.value}`}>${{ live: "Live", down: "Disconnected", connecting: "Connecting" }[streamState.value]}</span>
    ${token.value && html`<button type="button" class="quiet" onClick=${forgetToken}>Forget token</button>`}
    <span class="meta keys">
      ${PAGES_WITH_LIST.has(page) && html`<span><kbd>j</kbd> <kbd>k</kbd> move</span> <span><kbd>Enter</kbd> open</span>`}
      ${PAGES_WITH_SEARCH.has(page) && html` <span><kbd>/</kbd> search</span>`}
    </span>
  </div>`;
}

function StreamNotice() {
  if (streamState.value !== "down" || needsToken.value) return null;
  return html`<div class="notice waiting stream-down" role="status">
    The connection to the gateway is down. What you see may be old; it reconnects by itself.
  </div>`;
}

function TokenForm() {
  const [value, setValue] = useState("");
  const id = useId();
  const submit = (event) => {
    event.preventDefault();
    saveToken(value.trim());
    restart();
  };
  return html`<form class="token" onSubmit=${submit}>
    <p>This gateway asks for a token. It is kept in this tab only, and forgotten when you close it.</p>
    ${tokenProblem.value && html`<p class="problem" role="alert">${tokenProblem.value}</p>`}
    <label for=${id}>Token</label>
    <input id=${id} type="password" autocomplete="off" value=${value} onInput=${(event) => setValue(event.target.value)} />
    <button type="submit" class="primary" disabled=${!value.trim()}>Continue</button>
  </form>`;
}

start();
effect(() => document.documentElement.setAttribute("data-stream", streamState.value));
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
