"""The frame of the console: the token, the stream, a phone, dark mode and the keyboard."""

import re

from playwright.async_api import expect

from surehand import gateway
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import build_runtime
from tests.gateway.api.served_gateway import serve

PAGES = ("Inbox", "Tools", "Calls", "Spaces", "Agents", "Servers", "Audit", "Statistics")


async def test_without_a_token_the_page_shows_nothing_and_asks_for_one(tmp_path):
    tokens = gateway.bearer_tokens(gateway.operator_token("right-token"))
    async with serve(build_runtime(store=tmp_path / "s.db"), auth=tokens) as served:
        await served.call("pay", {"amount": 1, "to": "Ada"}, token="right-token")
        async with open_console(served.url, expected=("401",)) as page:
            await expect(page.get_by_label("Token")).to_be_visible()
            await expect(page.get_by_role("link", name="pay")).to_have_count(0)
            await take_screenshot(page, "token")
            await page.get_by_label("Token").fill("wrong")
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_text("The gateway does not accept this token.")).to_be_visible()
            await page.get_by_label("Token").fill("right-token")
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_role("link", name="pay")).to_be_visible()
            assert await page.evaluate("document.cookie") == ""
            assert await page.evaluate("Object.keys(localStorage)") == []
            await page.reload()
            await expect(page.get_by_role("link", name="pay")).to_be_visible()
            await expect(page).to_have_title("(1) Inbox · surehand")
            await page.get_by_role("button", name="Forget token").click()
            await expect(page.get_by_label("Token")).to_be_visible()
            await expect(page).to_have_title("Inbox · surehand")
            assert "right-token" not in page.url


async def test_the_page_says_when_its_stream_is_down_and_comes_back_by_itself(tmp_path):
    async with (
        serve(build_runtime(store=tmp_path / "s.db")) as served,
        open_console(served.url, expected=("ERR_",)) as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        await page.context.set_offline(True)
        # An open connection stays open in an offline browser: let the gateway end it.
        served.api.gateway.feed.close_listeners()
        await expect(page.get_by_text("The connection to the gateway is down.")).to_be_visible()
        await take_screenshot(page, "stream-down")
        await served.call("pay", {"amount": 1, "to": "Ada"})
        served.api.gateway.feed.is_closing = False
        await page.context.set_offline(False)
        await expect(page.get_by_text("Live")).to_be_visible()
        await expect(page.get_by_text("The connection to the gateway is down.")).to_have_count(0)
        await expect(page.get_by_role("link", name="pay")).to_be_visible()


async def test_every_page_fits_a_phone(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served:
        await served.call("pay", {"amount": 1, "to": "Ada"})
        async with open_console(served.url, width=375, height=740) as page:
            for name in PAGES:
                await page.get_by_role("navigation").get_by_role("link", name=name).click()
                await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
                await take_screenshot(page, f"phone-{name.lower()}")
                overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert overflow <= 0, name
            await page.get_by_role("navigation").get_by_role("link", name="Inbox").click()
            await page.get_by_role("link", name="pay").click()
            await expect(page.get_by_role("button", name="Approve")).to_be_visible()
            await take_screenshot(page, "phone-approval")
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            await page.get_by_role("link", name="Back to the list").click()
            await expect(page.get_by_role("link", name="pay")).to_be_visible()


async def test_dark_mode_follows_the_system(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served:
        call_id = (await served.call("edit_note", {"path": "notes/plan.md"})).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}", dark=True) as page:
            await expect(page.get_by_role("button", name="Approve")).to_be_visible()
            await take_screenshot(page, "dark-approval")
            background = await page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert max(int(number) for number in re.findall(r"\d+", background)) < 60


async def test_a_question_is_answered_with_the_keyboard_alone():
    async with serve(build_runtime()) as served:
        await served.call("pay", {"amount": 1, "to": "Ada"})
        await served.call("edit_note", {"path": "a.md"})
        async with open_console(served.url) as page:
            await expect(page.get_by_role("link", name="edit_note")).to_be_visible()
            await page.keyboard.press("j")
            await expect(page.get_by_role("heading", name="pay", level=2)).to_be_visible()
            await page.keyboard.press("j")
            await expect(page.get_by_role("heading", name="edit_note", level=2)).to_be_visible()
            await page.keyboard.press("k")
            await expect(page.get_by_role("heading", name="pay", level=2)).to_be_visible()
            await page.keyboard.press("Enter")
            approve = page.get_by_role("button", name="Approve")
            for _ in range(30):
                if await approve.evaluate("element => element === document.activeElement"):
                    break
                await page.keyboard.press("Tab")
            outline = await approve.evaluate("element => getComputedStyle(element).outlineStyle")
            await take_screenshot(page, "keyboard-focus")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("None paid 1 EUR to Ada")).to_be_visible()

    assert outline == "solid"
