"""Tools: search, run with progress and cancel, results of every kind, and copies of the call."""

import asyncio
import json
import sys
from ast import literal_eval

from playwright.async_api import expect

from surehand import Runtime, tool
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import Download, build_runtime
from tests.gateway.api.served_gateway import serve


async def test_a_tool_is_found_and_run_from_its_form(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served, open_console(served.url, "#/tools") as page:
        await page.get_by_placeholder("Search tools").fill("numbers add")
        await page.get_by_role("link", name="Add two numbers").click()
        await page.get_by_label("a", exact=True).fill("x")
        await expect(page.get_by_text("x is not a number.")).to_be_visible()
        await expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
        await page.get_by_label("a", exact=True).fill("2")
        await page.get_by_label("b", exact=True).fill("40")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_label("Result as text")).to_have_text("42")
        await take_screenshot(page, "tools-result")
        await page.get_by_role("link", name="Show the call").click()
        await expect(page.get_by_label("Arguments", exact=True)).to_contain_text('"b": 40')


async def test_progress_is_shown_and_a_run_can_be_cancelled():
    download = Download()
    async with serve(build_runtime(download.tool)) as served, open_console(served.url, "#/tools/download") as page:
        await page.get_by_label("name", exact=True).fill("film")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_text("half of it 50 %")).to_be_visible()
        await expect(page.get_by_role("progressbar")).to_have_attribute("value", "0.5")
        await take_screenshot(page, "tools-progress")
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("alert")).to_contain_text("cancelled")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_text("half of it 50 %")).to_be_visible()
        download.may_go_on.set()
        await expect(page.get_by_label("Result as text")).to_have_text("film is here")


async def test_a_tool_without_arguments_asks_for_none():
    async with serve(build_runtime()) as served, open_console(served.url, "#/tools/list_people") as page:
        await expect(page.get_by_text("There is nothing to fill in.")).to_be_visible()
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("cell", name="Grace")).to_be_visible()


async def test_arguments_keep_the_order_of_the_schema():
    @tool(effects={"write"}, confirm=True)
    async def tell(text: str, times: int = 1) -> str:
        """Tell a text."""
        return text * times

    async with serve(build_runtime(tell)) as served, open_console(served.url, "#/tools/tell") as page:
        await page.get_by_label("times", exact=True).fill("2")
        await page.get_by_label("text", exact=True).fill("Hello")
        await page.get_by_role("button", name="Run", exact=True).click()
        await page.get_by_role("link", name="Answer it in the inbox").click()
        await expect(page.locator(".row-item")).to_contain_text("text: Hello, times: 2")


async def test_results_are_tables_pictures_and_errors():
    async with serve(build_runtime()) as served, open_console(served.url, "#/tools/list_people") as page:
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("cell", name="Grace")).to_be_visible()
        await page.get_by_role("button", name="JSON", exact=True).last.click()
        await expect(page.get_by_label("Result as JSON")).to_contain_text('"city": "New York"')
        await page.goto(f"{served.url}/#/tools/draw")
        await page.get_by_role("button", name="Run", exact=True).click()
        picture = page.get_by_alt_text("Result 1")
        await expect(picture).to_be_visible()
        await expect(picture).to_have_js_property("naturalWidth", 1)  # a broken picture is visible, too
        await page.goto(f"{served.url}/#/tools/fail")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("no luck")


async def test_a_call_that_waits_shows_its_result_once_it_is_answered(tmp_path):
    async with (
        serve(build_runtime(store=tmp_path / "s.db")) as served,
        open_console(served.url, "#/tools/pay") as page,
    ):
        await page.get_by_label("amount").fill("3")
        await page.get_by_label("to", exact=True).fill("Ada")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_text("The call waits for approval.")).to_be_visible()
        [waiting] = (await served.client.get("/api/pending")).json()["items"]
        await served.client.post(f"/api/pending/{waiting['call_id']}/approve")
        await expect(page.get_by_label("Result as text")).to_have_text("None paid 3 EUR to Ada")


async def test_a_call_is_copied_for_a_terminal_a_program_and_a_client():
    async with serve(build_runtime()) as served:
        options = {"permissions": ["clipboard-read", "clipboard-write"]}
        async with open_console(served.url, "#/tools/fail", **options) as page:
            await page.get_by_label("reason").fill('it\'s "late"')
            copies = {}
            for position, name in enumerate(("curl", "Python", "MCP")):
                button = page.locator(".copy-as button").nth(position)
                await expect(button).to_have_text(name)
                await button.click()
                await expect(button).to_have_text("Copied")
                copies[name] = await page.evaluate("navigator.clipboard.readText()")

            by_curl = json.loads(await run_program("sh", "-c", copies["curl"]))
            by_python = literal_eval(await run_program(sys.executable, "-c", copies["Python"]))

    assert by_curl["message"] == by_python["message"]
    assert 'it\'s "late"' in by_curl["message"]
    assert json.loads(copies["MCP"])["params"] == {"name": "fail", "arguments": {"reason": 'it\'s "late"'}}


async def run_program(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def make_tool(number: int):
    @tool(name=f"tool_{number:04}", effects={"read"}, category="many")
    async def one(text: str = "") -> str:
        """Do one of many things."""
        return f"{number} {text}"

    return one


COUNT_WORK = """async () => {
    const box = document.querySelector("#tool-search");
    let changed = 0;
    const observer = new MutationObserver((records) => {
        for (const each of records) changed += each.addedNodes.length + each.removedNodes.length + 1;
    });
    const all = { subtree: true, childList: true, characterData: true, attributes: true };
    observer.observe(document.getElementById("app"), all);
    const times = [];
    for (const text of ["t", "to", "too", "tool", "tool_", "tool_0", "tool_00", "tool_", "tool", "to"]) {
        const started = performance.now();
        box.value = text;
        box.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        times.push(performance.now() - started);
    }
    observer.disconnect();
    const [ms] = times.toSorted((one, other) => one - other).slice(times.length / 2);
    return { changed, nodes: document.querySelectorAll("*").length, ms };
}"""


async def measure_search(tool_count: int) -> dict:
    """What ten keys in the search cost: nodes of the page, changes of them, and the median time of one key."""
    async with (
        serve(Runtime(*map(make_tool, range(tool_count)))) as served,
        open_console(served.url, "#/tools") as page,
    ):
        await expect(page.get_by_text(f"{tool_count:,} tools", exact=True)).to_be_visible()
        await expect(page.locator(".row-item")).to_have_count(100)
        measured = await page.evaluate(COUNT_WORK)
        await page.get_by_placeholder("Search tools").fill(f"{tool_count - 1:04}")
        await expect(page.locator(".row-item")).to_have_count(1)
        await expect(page.get_by_role("link", name=f"tool_{tool_count - 1:04}")).to_be_visible()
        await page.get_by_placeholder("Search tools").fill("tool")
        await take_screenshot(page, f"tools-{tool_count}")
        return measured


async def test_five_thousand_tools_stay_as_quick_as_a_hundred():
    few = await measure_search(100)
    many = await measure_search(5_000)
    print(f"One key in a search over 100 tools: {few['ms']:.1f} ms, over 5,000: {many['ms']:.1f} ms")

    # Fifty times as many tools: the page draws the same, and a key takes a small multiple.
    assert many["nodes"] <= few["nodes"] + 20
    assert many["changed"] <= few["changed"] * 1.5 + 100
    assert many["ms"] < few["ms"] * 10
