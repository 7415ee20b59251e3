"""Forms: what a person sees in them is what is approved and run, and typing is never interrupted."""

import json

from playwright.async_api import expect

from surehand import tool
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import build_runtime
from tests.gateway.api.served_gateway import serve

SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "safe": {"type": "boolean", "default": True},
        "exact": {"type": "boolean"},
        "language": {"type": "string", "enum": ["en", "de"], "default": "en"},
        "limit": {"type": "integer"},
        "filter": {"type": "object", "properties": {"city": {"type": "string"}, "year": {"type": "integer"}}},
    },
    "required": ["query"],
}


@tool(name="search_shop", description="Search the shop.", parameters=SEARCH, effects={"write"}, confirm=True)
async def search_shop(**arguments):
    return json.dumps(arguments)


async def open_question(served, arguments):
    """The address of the question about a call of `search_shop`."""
    return f"#/inbox/{(await served.call('search_shop', arguments)).json()['call_id']}"


async def approve(page):
    """Approve, and return the arguments that the tool was called with."""
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Approved.", exact=True)).to_be_visible()
    return json.loads(await page.get_by_label("Result as text").inner_text())


async def test_a_long_text_is_typed_without_losing_the_focus():
    text = "j k / " * 13 + "ok"  # 80 characters, with the keys that move in lists
    async with serve(build_runtime(search_shop)) as served, open_console(served.url, "#/tools/fail") as page:
        await page.get_by_label("reason").fill("")
        await page.get_by_label("reason").press_sequentially(text)
        await expect(page.get_by_label("reason")).to_have_value(text)
        await expect(page.get_by_label("reason")).to_be_focused()
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text(text)
        await take_screenshot(page, "form-long-text")


async def test_a_pasted_text_keeps_its_lines():
    async with serve(build_runtime(search_shop)) as served:
        options = {"permissions": ["clipboard-read", "clipboard-write"]}
        async with open_console(served.url, "#/tools/fail", **options) as page:
            await page.evaluate("navigator.clipboard.writeText('one\\ntwo')")
            await page.get_by_label("reason").fill("zero three")
            for _ in "three":
                await page.keyboard.press("ArrowLeft")
            await page.keyboard.press("ControlOrMeta+V")
            await page.keyboard.type("!")
            await expect(page.get_by_label("reason")).to_have_value("zero one\ntwo!three")


async def test_arguments_beyond_the_schema_are_shown_and_can_be_edited():
    given = {"query": "shoes", "coupon": "SPRING", "sizes": [1, 2]}
    async with serve(build_runtime(search_shop)) as served:
        address = await open_question(served, given)
        async with open_console(served.url, address) as page:
            await expect(page.get_by_label("coupon")).to_have_value("SPRING")
            await expect(page.get_by_text("not in the schema")).to_have_count(2)
            await page.get_by_label("sizes").fill("[3]")
            await page.get_by_label("coupon").fill("")
            await page.get_by_label("coupon").press_sequentially("FALL")
            await take_screenshot(page, "form-other-arguments")
            called = await approve(page)

    assert called == {"query": "shoes", "coupon": "FALL", "sizes": [3]}


async def test_what_is_left_out_is_shown_as_its_default():
    async with serve(build_runtime(search_shop)) as served:
        address = await open_question(served, {"query": "shoes"})
        async with open_console(served.url, address) as page:
            await expect(page.get_by_label("safe")).to_be_checked()
            await expect(page.get_by_text("boolean · the default")).to_be_visible()
            await expect(page.get_by_label("exact")).not_to_be_checked()
            await expect(page.get_by_text("boolean · not given")).to_be_visible()
            await expect(page.get_by_label("language")).to_have_text("en (the default)ende")
            await page.get_by_label("safe").uncheck()
            called = await approve(page)

    assert called == {"query": "shoes", "safe": False}


async def test_large_integers_keep_all_their_digits():
    large = 2**63 - 1
    async with serve(build_runtime(search_shop)) as served:
        address = await open_question(served, {"query": "shoes", "limit": large, "order": 2**60 + 1})
        async with open_console(served.url, address) as page:
            await expect(page.get_by_label("limit")).to_have_value(str(large))
            await expect(page.locator(".row-item")).to_contain_text(str(large))
            await page.get_by_label("query").fill("boots")
            await page.get_by_role("button", name="JSON").first.click()
            await expect(page.get_by_label("Arguments as JSON")).to_have_value(
                json.dumps({"query": "boots", "limit": large, "order": 2**60 + 1}, indent=2)
            )
            await page.get_by_role("button", name="Form").click()
            await page.get_by_label("limit").fill(str(large - 2))
            called = await approve(page)

    assert called == {"query": "boots", "limit": large - 2, "order": 2**60 + 1}


async def test_a_mistake_is_forgotten_with_the_field_that_shows_it():
    async with serve(build_runtime(search_shop)) as served:
        address = await open_question(served, {"query": "shoes", "limit": 5})
        async with open_console(served.url, address) as page:
            approve_button = page.get_by_role("button", name="Approve")
            limit = page.get_by_label("limit")
            await limit.fill("many")
            await expect(page.get_by_text("many is not a number.")).to_be_visible()
            await expect(approve_button).to_be_disabled()
            await take_screenshot(page, "form-mistake")
            await page.get_by_role("button", name="Undo").click()
            await expect(limit).to_have_value("5")
            await expect(approve_button).to_be_enabled()

            await limit.fill("many")
            await page.get_by_role("button", name="JSON").click()
            await expect(approve_button).to_be_enabled()
            box = page.get_by_label("Arguments as JSON")
            await box.fill('{"query": "boots", "limit": 6}')
            await box.fill('{"query": ')
            await expect(approve_button).to_be_disabled()
            await page.get_by_role("button", name="Form").click()
            await expect(page.get_by_label("query")).to_have_value("boots")
            await expect(approve_button).to_be_enabled()

            await page.get_by_role("button", name="JSON").click()
            await box.fill("{")
            await page.get_by_role("button", name="Undo").click()
            await expect(box).to_have_value(json.dumps({"query": "shoes", "limit": 5}, indent=2))
            called = await approve(page)

    assert called == {"query": "shoes", "limit": 5}


async def test_an_object_that_was_written_as_text_is_shown_and_edited_as_an_object():
    given = {"query": "shoes", "filter": '{"city": "Oslo", "year": 2026, "size": 40}'}
    async with serve(build_runtime(search_shop)) as served:
        address = await open_question(served, given)
        async with open_console(served.url, address) as page:
            await expect(page.get_by_label("city")).to_have_value("Oslo")
            await expect(page.get_by_label("size")).to_have_value("40")
            await page.get_by_label("year").fill("2027")
            called = await approve(page)

    assert called == {"query": "shoes", "filter": {"city": "Oslo", "year": 2027, "size": 40}}


async def test_a_value_that_its_control_cannot_show_is_shown_as_json():
    given = {"language": "fr", "query": "shoes", "exact": None}
    async with serve(build_runtime(search_shop)) as served, open_console(served.url, "#/tools/search_shop") as page:
        await page.get_by_role("button", name="JSON").first.click()
        await page.get_by_label("Arguments as JSON").fill(json.dumps({**given, "safe": "maybe", "limit": [1]}))
        await page.get_by_role("button", name="Form").click()
        await expect(page.get_by_label("safe")).to_have_value('"maybe"')
        await expect(page.get_by_label("limit")).to_have_value("[\n  1\n]")
        await expect(page.get_by_label("language").locator("option:checked")).to_have_text('"fr", which is no choice')
        await expect(page.get_by_text("boolean · null")).to_be_visible()
        await take_screenshot(page, "form-odd-values")


LOGIN = {
    "type": "object",
    "properties": {
        "password": {"type": "string", "format": "password"},
        "table": {"oneOf": [{"const": "drop", "title": "keep"}, {"const": "keep"}]},
        "pages": {"type": "array", "items": {"anyOf": [{"const": 1, "title": "2"}, {"const": 2, "title": "2"}]}},
    },
}


@tool(name="log_in", description="Log in.", parameters=LOGIN, effects={"write"}, confirm=True)
async def log_in(**arguments):
    return json.dumps(arguments)


async def test_an_approval_shows_a_password_and_a_form_that_is_filled_in_hides_it():
    async with serve(build_runtime(log_in)) as served:
        call_id = (await served.call("log_in", {"password": "rm -rf /"})).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            await expect(page.get_by_label("password")).to_have_value("rm -rf /")
            await expect(page.get_by_label("password")).to_have_attribute("type", "text")
            await page.goto(f"{served.url}/#/tools/log_in")
            await expect(page.get_by_label("password")).to_have_attribute("type", "password")


async def test_a_choice_with_a_title_shows_its_value():
    async with serve(build_runtime(log_in)) as served:
        call_id = (await served.call("log_in", {"table": "drop", "pages": [1]})).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            options = page.get_by_label("table").locator("option")
            await expect(page.get_by_label("table").locator("option:checked")).to_have_text("keep (drop)")
            assert (await options.all_inner_texts())[1:] == ["keep (drop)", "keep"]
            assert await page.locator(".choices label").all_inner_texts() == ["2 (1)", "2"]
