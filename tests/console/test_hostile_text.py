"""Hostile text everywhere: nothing runs, nothing is loaded, and the layout holds."""

import pytest
from playwright.async_api import expect

from surehand import Agent, Context, Pending, Runtime, ToolError, tool
from surehand.testing import ScriptedModel
from tests.console.browser import open_console, take_screenshot
from tests.console.script_corpus import script_corpus
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
PATHS = ("inbox", "tools", "calls", "spaces", "audit", "statistics", "servers")


def hostile_runtime(store) -> Runtime:
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

    asked = tool.client("hostile_question", HOSTILE, reply="later")
    return Runtime(hostile, hostile_approval, hostile_link, asked, store=store)


@pytest.mark.parametrize("width", [1280, 375])
async def test_nothing_runs_and_the_layout_holds(tmp_path, width):
    agent = Agent("parrot", model=ScriptedModel(HOSTILE), description=HOSTILE, tools=[])
    async with serve(hostile_runtime(tmp_path / "s.db"), agents=[agent]) as served:
        client = served.client
        ran = (await served.call("hostile", {"choice": PAYLOADS[0]})).json()["call_id"]
        waits = [(await served.call("hostile_approval", {"text": HOSTILE}, session=PAYLOADS[1])).json()["call_id"]]
        waits.append((await served.call("hostile_question", {PAYLOADS[1]: HOSTILE})).json()["call_id"])
        waits.append((await served.call("hostile_link")).json()["call_id"])
        run = (await client.post("/api/agents/parrot/run", json={"prompt": HOSTILE})).json()["run_id"]
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
                if address.count("/") > 1 and "%3C" not in address:
                    await expect(page.locator("[data-detail]")).to_be_visible()
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
            await page.goto(f"{served.url}/#/inbox/{waits[0]}")
            await expect(page.locator(".message")).to_contain_text("\\u{202e}evil\\u{202c}\\u{200b}")
            await expect(page.get_by_text("Some characters cannot be seen")).to_contain_text("\\u{202e}evil")
            await take_screenshot(page, f"hostile-{width}")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("alert")).to_contain_text(PAYLOADS[0])


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_no_text_of_a_corpus_of_scripts_runs(tmp_path):
    """In the cells of tables, in messages, errors and names: every place where a page shows what others wrote."""
    corpus = script_corpus()
    pages = [corpus[start : start + 200] for start in range(0, len(corpus), 200)]

    @tool(effects={"read"})
    async def table(number: int) -> list[dict[str, str]]:
        """Show a part of the corpus."""
        return [{"text": each} for each in pages[number]]

    @tool(effects={"read"})
    async def broken(number: int) -> str:
        """Fail with a part of the corpus."""
        raise ToolError("\n".join(pages[number]))

    async with serve(Runtime(table, broken, store=tmp_path / "s.db")) as served:
        client = served.client
        calls = {}
        for name in ("table", "broken"):
            for number in range(len(pages)):
                headers = {"Idempotency-Key": f"{name}-{number}"}  # such calls are remembered with their outcome
                body = {"arguments": {"number": number}}
                call = await client.post(f"/api/tools/{name}/call", json=body, headers=headers)
                calls[name, number] = call.json()["call_id"]
        await client.post("/api/spaces", json={"id": "room"})
        await client.post("/api/spaces/room/members", json={"id": "m", "name": corpus[0]})
        for start in range(0, len(corpus), 50):
            message = {"content": "\n".join(corpus[start : start + 50]), "sender": "m"}
            await client.post("/api/spaces/room/messages", json=message)
        for number, name in enumerate(corpus[:: len(corpus) // 100]):
            await client.post("/api/spaces", json={"id": f"space-{number}", "name": name[:200]})
        async with open_console(served.url) as page:
            for number, texts in enumerate(pages):
                await page.goto(f"{served.url}/#/calls/{calls['table', number]}")
                cells = page.locator(".result table td")
                await expect(cells).to_have_count(len(texts))
                shown = await cells.all_text_contents()
                assert [each.split() for each in shown] == [each.split() for each in texts]
                await assert_no_markup_of_others(page)
            errors = [f"calls/{calls['broken', number]}" for number in range(len(pages))]
            for address in (*errors, "spaces/room", "spaces"):
                await page.goto(f"{served.url}/#/{address}")
                await expect(page.locator("main")).to_contain_text("alert(1)")
                await assert_no_markup_of_others(page)

    assert len(corpus) > 2_000


async def assert_no_markup_of_others(page) -> None:
    """The page has no element that only markup of others would bring, and no link that runs a script."""
    elements = (
        "iframe, object, embed, base, meta, svg script, svg a, svg image, svg animate, math, form form, main script"
    )
    assert await page.locator(f"main :is({elements}), script:not([src])").count() == 0
    names = await page.evaluate("[...document.querySelectorAll('main *')].flatMap((each) => each.getAttributeNames())")
    assert not [each for each in names if each.startswith("on")]
    assert set(await page.evaluate("[...document.querySelectorAll('a')].map((each) => each.protocol)")) <= {"http:"}
