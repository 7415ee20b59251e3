// The same call for a terminal, a Python program or an MCP client.
import { html } from "../html.js";
import { apiUrl, token } from "../api.js";
import { toJson } from "../format.js";
import { CopyButton } from "./copy_button.js";

export function CopyAs({ tool, values }) {
  return html`<span class="row small-gap copy-as"><span class="meta">Copy as</span>
    <${CopyButton} label="curl" text=${asCurl(tool, values)} />
    <${CopyButton} label="Python" text=${asPython(tool, values)} />
    <${CopyButton} label="MCP" text=${asMcp(tool, values)} /></span>`;
}

function callUrl(tool) {
  return apiUrl(`/api/tools/${encodeURIComponent(tool)}/call`).href;
}

// A text in single quotes for a shell: each quote in it ends the text, adds an escaped quote, and begins it again.
function shellQuote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function asCurl(tool, values) {
  // The token itself is not copied: it would end up in shell histories and chats.
  const header = token.value ? ' -H "Authorization: Bearer $SUREHAND_TOKEN"' : "";
  const body = shellQuote(JSON.stringify({ arguments: values }));
  return `curl -sS ${shellQuote(callUrl(tool))}${header} -H 'Content-Type: application/json' -d ${body}`;
}

export function asPython(tool, values) {
  const header = token.value ? ', headers={"Authorization": f"Bearer {os.environ[\'SUREHAND_TOKEN\']}"}' : "";
  const imports = token.value ? "import json\nimport os\n\nimport httpx" : "import json\n\nimport httpx";
  const body = `json.loads(${JSON.stringify(JSON.stringify({ arguments: values }))})`;
  return `${imports}\n\nbody = ${body}\nanswer = httpx.post(${JSON.stringify(callUrl(tool))}, json=body${header}, timeout=None)\nprint(answer.json())\n`;
}

export function asMcp(tool, values) {
  return toJson({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool, arguments: values } });
}
