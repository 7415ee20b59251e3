"""Hostile text everywhere: nothing runs, nothing is loaded, and the layout holds."""

import asyncio
import json
import re
import sys

import pytest
from playwright.async_api import expect

from surehand import Agent, Context, Pending, Runtime, mcp, tool
from surehand.agent.models.base import ModelError
from surehand.core.sanitize import HIDDEN_CHARACTERS
from surehand.testing import ScriptedModel
from tests.console.browser import open_console, take_screenshot
from tests.console.hostile_texts import FAMILIES
from tests.gateway.api.served_gateway import serve

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "javascript:alert(4)",
    "<iframe srcdoc='<script>parent.alert(5)</script>'>",
    "${alert(6)}{{constructor.constructor('alert(7)')()}}",
    "</textarea><script>alert(8)</script>",
    "data:text/html,<script>alert(9)</script>",
    "\u202eevil\u202c\u200b",
    "W" * 300,
]
HOSTILE = "\n".join(PAYLOADS)
SHOWN = {
    # The names of tools and servers that the pages list, so that these are not empty.
    "#/calls": PAYLOADS[0],
    "#/audit": "hostile_approval",
    "#/servers/notes": PAYLOADS[1],
    "#/servers/absent": "Last error",
}
PATHS = ("inbox", "tools", "calls", "spaces", "audit", "statistics", "servers")


HOSTILE_SERVER = """
import json
import re
import sys
from pathlib import Path
from mcp.server.mcpserver import MCPServer

name, description = json.loads(Path(sys.argv[1]).read_text())
server = MCPServer(name, version=name)

@server.tool(title=name, description=description)
def read_note(name: str) -> str:
    return name

server.run()
"""


def hostile_server(tmp_path, description):
    """A server with a hostile name, version, title and description."""
    script = tmp_path / "server.py"
    script.write_text(HOSTILE_SERVER)
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps([PAYLOADS[1], description]))
    lock = tmp_path / "surehand.lock"
    return mcp.stdio(sys.executable, str(script), str(texts), namespace="notes", lock=lock, manifest=False)


def hostile_runtime(store, *sources) -> Runtime:
    schema = {
        "type": "object",
        "title": HOSTILE,
        "properties": {
            PAYLOADS[1]: {"type": "string", "description": HOSTILE, "default": PAYLOADS[0]},
            "choice": {"enum": PAYLOADS, "description": HOSTILE},
            "__proto__": {"type": "string"},
        },
    }

    @tool(name="hostile", description=HOSTILE, parameters=schema, effects={"write"}, category=PAYLOADS[0])
    async def hostile(**values) -> list[dict[str, str]]:
        return [{PAYLOADS[1]: HOSTILE, "b": each} for each in PAYLOADS]

    @tool(
        name="hostile_approval",
        description=HOSTILE,
        effects={"write"},
        confirm=True,
        confirm_message=HOSTILE,
        preview=lambda args: {"type": "diff", "filePath": PAYLOADS[1], "patch": f"--- a\n+++ b\n+{HOSTILE}"},
    )
    async def hostile_approval(text: str) -> str:
        raise ValueError(HOSTILE)

    @tool(name="hostile_link", effects={"read"})
    async def hostile_link(ctx: Context) -> Pending:
        return Pending("input", message=HOSTILE, request={"mode": "url", "url": "javascript:alert(10)"})

    @tool(name="hostile_form", effects={"read"})
    async def hostile_form() -> Pending:
        return Pending(
            "input", message=HOSTILE, request={"mode": "form", "schema": {**schema, "required": [PAYLOADS[1]]}}
        )

    asked = tool.client("hostile_question", HOSTILE, reply="later")
    return Runtime(hostile, hostile_approval, hostile_link, hostile_form, asked, *sources, store=store)


def hostile_progress():
    """A tool that reports hostile progress, and the event that ends it."""
    may_end = asyncio.Event()

    @tool(name="hostile_progress", effects={"read"}, timeout="off")
    async def report(ctx: Context) -> str:
        ctx.report(HOSTILE, fraction=0.5)
        await may_end.wait()
        return HOSTILE

    return report, may_end


@pytest.mark.parametrize("width", [1280, 375])
async def test_nothing_runs_and_the_layout_holds(tmp_path, width):
    agent = Agent("parrot", model=ScriptedModel(HOSTILE), description=HOSTILE, tools=[])
    broken = Agent("broken", model=ScriptedModel(ModelError(HOSTILE)), tools=[])
    async with Runtime(hostile_server(tmp_path, HOSTILE)) as first:
        await first.call("notes__read_note", {"name": "a"})
    absent = mcp.stdio(sys.executable, "-c", f"raise SystemExit({HOSTILE!r})", namespace="absent", manifest=False)
    progress, may_end = hostile_progress()
    servers = (hostile_server(tmp_path, f"{HOSTILE}!"), absent)
    runtime = hostile_runtime(tmp_path / "s.db", progress, *servers)
    async with serve(runtime, agents=[agent, broken]) as served:
        client = served.client
        ran = (await served.call("hostile", {"choice": PAYLOADS[0]})).json()["call_id"]
        waits = [(await served.call("hostile_approval", {"text": HOSTILE}, session=PAYLOADS[1])).json()["call_id"]]
        waits.append((await served.call("hostile_question", {PAYLOADS[1]: HOSTILE})).json()["call_id"])
        waits.append((await served.call("hostile_link")).json()["call_id"])
        waits.append((await served.call("hostile_form")).json()["call_id"])
        run = (await client.post("/api/agents/parrot/run", json={"prompt": HOSTILE})).json()["run_id"]
        failed_run = (await client.post("/api/agents/broken/run", json={"prompt": HOSTILE})).json()["run_id"]
        rejected = (await served.call("hostile_approval", {"text": HOSTILE})).json()["call_id"]
        await client.post(f"/api/pending/{rejected}/reject", json={"reason": HOSTILE})
        for name in PAYLOADS[:3]:
            await runtime.call(name, {PAYLOADS[1]: HOSTILE}, call_id=f"unknown-{len(name)}")
        failed = (await served.call("hostile_approval", {"text": HOSTILE})).json()["call_id"]
        await client.post(f"/api/pending/{failed}/approve")
        await client.post("/api/spaces", json={"id": "room", "name": PAYLOADS[1]})
        await client.post("/api/spaces/room/members", json={"id": "m", "name": PAYLOADS[0]})
        await client.post("/api/spaces/room/messages", json={"content": HOSTILE, "sender": "m"})
        await client.post("/api/spaces/room/messages", json={"content": {"html": PAYLOADS}, "sender": "m"})
        await served.call("hostile", {}, space="room")
        addresses = [
            *(f"#/{name}" for name in PATHS),
            *(f"#/inbox/{each}" for each in waits),
            f"#/calls/{ran}",
            f"#/calls/{failed}",
            f"#/calls/{rejected}",
            f"#/calls/unknown-{len(PAYLOADS[0])}",
            f"#/audit/{rejected}",
            "#/servers/notes",
            "#/servers/absent",
            f"#/agents/run:{failed_run}",
            "#/tools/hostile",
            "#/agents",
            "#/agents/parrot",
            f"#/agents/run:{run}",
            "#/spaces/room",
            "#/tools/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        ]
        async with open_console(served.url, width=width, expected=("404",)) as page:
            for address in addresses:
                await page.goto(f"{served.url}/{address}")
                await expect(page.locator("main h1")).to_be_visible()
                if address.count("/") > 1 and "%3C" not in address and "audit" not in address:
                    await expect(page.locator("[data-detail]")).to_be_visible()
                if address in SHOWN:
                    pane = page.locator(".detail-pane" if address.count("/") > 1 else "main")
                    await expect(pane.get_by_text(SHOWN[address]).first).to_be_visible()
                assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
                foreign = await page.evaluate(
                    "[...document.querySelectorAll('iframe, script:not([src]), svg image, object, embed')].length"
                )
                assert foreign == 0, address
                links = await page.evaluate("[...document.querySelectorAll('a')].map((each) => each.protocol)")
                assert set(links) <= {"http:"}, address
            await page.goto(f"{served.url}/#/tools/hostile")
            await page.get_by_role("button", name="Run", exact=True).click()
            await expect(page.get_by_role("cell", name=PAYLOADS[0], exact=True)).to_be_visible()
            await page.goto(f"{served.url}/#/tools/hostile_progress")
            await page.get_by_role("button", name="Run", exact=True).click()
            await expect(page.locator(".progress")).to_contain_text(PAYLOADS[0])
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            may_end.set()
            await expect(page.get_by_label("Result as text")).to_contain_text(PAYLOADS[0])
            await page.goto(f"{served.url}/#/inbox/{waits[0]}")
            await expect(page.locator(".message")).to_contain_text("\\u{202e}evil\\u{202c}\\u{200b}")
            await expect(page.get_by_text("Some characters cannot be seen")).to_contain_text("\\u{202e}evil")
            await take_screenshot(page, f"hostile-{width}")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("alert")).to_contain_text(PAYLOADS[0])


LIST_ESCAPED = """async () => {
    const { visible } = await import("/console/format.js");
    const isEscaped = (number) => visible(String.fromCodePoint(number)) === `\\\\u{${number.toString(16)}}`;
    return Array.from({ length: 0x110000 }, (_, number) => number).filter(isEscaped);
}"""


async def test_the_console_escapes_all_characters_that_are_hidden_from_models():
    async with serve(Runtime()) as served, open_console(served.url) as page:
        escaped = set(await page.evaluate(LIST_ESCAPED))
        no_change = await page.evaluate("import('/console/format.js').then(({ visible }) => visible('Grüße 👍\\n\\t'))")

    hidden = re.compile(f"[{HIDDEN_CHARACTERS}\ud800-\udfff]")
    assert escaped == {number for number in range(sys.maxunicode + 1) if hidden.match(chr(number))}
    assert no_change == "Grüße 👍\n\t"


TEXTS_AT_ONCE = 150


def build_corpus_runtime(store):
    """Tools that bring texts into their question, form, arguments, output and error."""

    @tool(name="ask", effects={"write"})
    async def ask(texts: list[str]) -> Pending:
        fields = {each: {"type": "string", "title": each, "description": each, "default": each} for each in texts[:20]}
        schema = {"type": "object", "properties": {**fields, "choice": {"enum": texts, "description": texts[0]}}}
        return Pending("input", message="\n".join(texts), request={"mode": "form", "schema": schema})

    @tool(name="change", effects={"write"}, confirm=True, preview=lambda args: "\n".join(args["texts"]))
    async def change(texts: list[str]) -> list[dict[str, str]]:
        return [{"text": each, each: str(index)} if index < 5 else {"text": each} for index, each in enumerate(texts)]

    @tool(name="fail", effects={"read"})
    async def fail(texts: list[str]) -> str:
        raise ValueError("\n".join(texts))

    return Runtime(ask, change, fail, store=store)


async def check_texts(served, page, texts):
    """Show texts in each field that a person sees, and see that they are only texts there."""
    client = served.client
    asked = (await served.call("ask", {"texts": texts})).json()["call_id"]
    changed = (await served.call("change", {"texts": texts}, session=texts[0][:200])).json()["call_id"]
    failed = (await served.call("fail", {"texts": texts})).json()["call_id"]
    answer = await client.post("/api/agents/parrot/run", json={"prompt": "\n".join(texts)})
    room = (await client.post("/api/spaces", json={"name": texts[0][:100]})).json()["id"]
    await client.post(f"/api/spaces/{room}/members", json={"id": "m", "name": texts[-1][:100]})
    await client.post(f"/api/spaces/{room}/messages", json={"content": "\n".join(texts), "sender": "m"})
    await served.api.gateway.runtime.call(texts[0][:200], {each: each for each in texts})
    addresses = {
        f"#/inbox/{asked}": ".message",
        f"#/inbox/{changed}": ".detail-pane pre.output",
        f"#/calls/{failed}": ".detail-pane .notice",
        f"#/agents/run:{answer.json()['run_id']}": ".run .bubble:not(.own)",
        f"#/spaces/{room}": ".message-item .bubble",
        "#/calls": ".list",
        "#/audit": ".records",
    }
    for address, place in addresses.items():
        await page.goto(f"{served.url}/{address}")
        await expect(page.locator(place).first).to_be_visible()
        if place not in (".list", ".records", ".detail-pane .notice"):
            shown = await page.locator(place).first.text_content()
            lost = await page.evaluate(
                """async ([shown, texts]) => {
                    const { visible } = await import(`${location.origin}/console/format.js`);
                    return texts.filter((each) => !shown.includes(visible(each)));
                }""",
                [shown, texts],
            )
            assert lost == [], (address, lost[:3])
        if changed in address:
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("region", name="Result as a table")).to_be_visible()
        problems = await page.evaluate("[window.__attacked, window.__violations]")
        assert problems == [[], []], (address, texts[0])


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
async def test_no_text_of_a_large_corpus_runs(tmp_path, family):
    texts = list(dict.fromkeys(FAMILIES[family]()))
    parrot = Agent("parrot", model=ScriptedModel(*[repeat_prompt] * (len(texts) // TEXTS_AT_ONCE + 1)), tools=[])
    async with (
        serve(build_corpus_runtime(tmp_path / "s.db"), agents=[parrot]) as served,
        open_console(served.url) as page,
    ):
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            await check_texts(served, page, texts[start : start + TEXTS_AT_ONCE])


def repeat_prompt(messages):
    return messages[-1]["content"]
