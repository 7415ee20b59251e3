"""Hostile text everywhere: nothing runs, nothing is loaded, and the layout holds."""

import pytest
from playwright.async_api import expect

from surehand import Agent, Context, Pending, Runtime, tool
from surehand.testing import ScriptedModel
from tests.console.browser import open_console, take_screenshot
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
