"""The frame of the console: the token, the stream, a phone, dark mode and the keyboard."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from surehand import Agent, Runtime, gateway, tool
from surehand.gateway.events.feed import MAX_BUFFERED_EVENTS
from surehand.testing import ScriptedModel
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import build_runtime
from tests.gateway.api.served_gateway import serve, until

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


async def focus_with_tab(page, control):
    """Press Tab until a control has the focus."""
    for _ in range(40):
        if await control.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {control}.")


async def test_after_an_answer_the_focus_stays_in_the_detail():
    async with serve(build_runtime()) as served:
        for number in (1, 2):
            await served.call("pay", {"amount": number, "to": "Ada"})
        async with open_console(served.url) as page:
            await expect(page.get_by_text("Live")).to_be_visible()
            await page.keyboard.press("j")
            await page.keyboard.press("Enter")
            await focus_with_tab(page, page.get_by_role("button", name="Approve", exact=True))
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("Approved.")).to_be_visible()
            await expect(page.locator("[data-detail]")).to_be_focused()
            await focus_with_tab(page, page.get_by_role("button", name="Next question"))
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
            await expect(page.locator("[data-detail]")).to_be_focused()


async def test_a_tool_is_run_with_the_keyboard_alone():
    async with serve(build_runtime()) as served, open_console(served.url, "#/tools") as page:
        await expect(page.get_by_role("link", name="Add two numbers")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("numbers add")
        await expect(page.locator(".row-item").first).to_contain_text("Add two numbers")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await expect(page.get_by_role("heading", name="add", level=2)).to_be_visible()
        await page.keyboard.press("Enter")
        await focus_with_tab(page, page.get_by_label("a", exact=True))
        await page.keyboard.type("2")
        await page.keyboard.press("Tab")
        await page.keyboard.type("40")
        run = page.get_by_role("button", name="Run", exact=True)
        await focus_with_tab(page, run)
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Result as text")).to_have_text("42")
        await expect(run).to_be_focused()


async def test_a_chat_is_held_with_the_keyboard_alone(tmp_path):
    agent = Agent("greeter", model=ScriptedModel("Hello.", "Good bye."), tools=[])
    async with (
        serve(build_runtime(store=tmp_path / "s.db"), agents=[agent]) as served,
        open_console(served.url, "#/agents") as page,
    ):
        await expect(page.get_by_role("link", name="greeter")).to_be_visible()
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await focus_with_tab(page, page.get_by_label("Message"))
        await page.keyboard.type("Hi")
        await page.keyboard.press("Enter")
        await expect(page.locator(".run .bubble")).to_have_text("Hello.")
        await expect(page.get_by_label("Message")).to_be_focused()
        await page.keyboard.type("Bye")
        await page.keyboard.press("Enter")
        await expect(page.locator(".run .bubble").last).to_have_text("Good bye.")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await expect(page.get_by_role("heading", name="Run", exact=True, level=2)).to_be_visible()


async def test_rows_of_the_audit_are_reached_with_the_keyboard(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served:
        await served.call("pay", {"amount": 1, "to": "Ada"})
        async with open_console(served.url, "#/audit") as page:
            await expect(page.get_by_role("cell", name="pay").first).to_be_visible()
            await page.keyboard.press("j")
            await expect(page.locator("tbody tr a").first).to_be_focused()
            await page.keyboard.press("/")
            await expect(page.get_by_label("Tool")).to_be_focused()
            await page.keyboard.press("Escape")
            await page.keyboard.press("j")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="pay", level=2)).to_be_visible()


async def test_a_forgotten_token_leaves_no_stream_and_nothing_of_its_user(tmp_path):
    tokens = gateway.bearer_tokens(
        gateway.Token(gateway.hash_token("ada-token"), "ada"), gateway.operator_token("operator-token")
    )
    agent = Agent("greeter", model=ScriptedModel("Hello to you.", "Hello to her."), tools=[])
    async with serve(build_runtime(store=tmp_path / "s.db"), auth=tokens, agents=[agent]) as served:
        feed = served.api.gateway.feed
        async with open_console(served.url, "#/agents/greeter", expected=("401",)) as page:
            await page.get_by_label("Token").fill("operator-token")
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_text("Live")).to_be_visible()
            await page.get_by_label("Message").fill("The secret of the operator.")
            await page.get_by_role("button", name="Send").click()
            await expect(page.locator(".run .bubble")).to_have_text("Hello to you.")
            await page.get_by_role("button", name="Forget token").click()
            await expect(page.get_by_label("Token")).to_be_visible()
            await until(lambda: feed.listener_count == 0)
            await page.get_by_label("Token").fill("ada-token")
            await page.get_by_role("button", name="Continue").click()
            await expect(page.get_by_text("Live")).to_be_visible()
            await expect(page.get_by_label("Message")).to_be_visible()
            await expect(page.get_by_text("The secret of the operator.")).to_have_count(0)
            assert feed.listener_count == 1
            await page.get_by_label("Message").fill("Hi")
            await page.get_by_role("button", name="Send").click()
            await expect(page.locator(".run .bubble")).to_have_text("Hello to her.")


async def test_pages_that_were_opened_without_a_gateway_recover_by_themselves(tmp_path):
    agent = Agent("greeter", model=ScriptedModel("Hello."), tools=[])
    async with serve(build_runtime(store=tmp_path / "s.db"), agents=[agent]) as served:
        waiting = (await served.call("pay", {"amount": 1, "to": "Ada"})).json()["call_id"]
        answered = (await served.call("pay", {"amount": 2, "to": "Ada"})).json()["call_id"]
        await served.client.post(f"/api/pending/{answered}/reject")
        await served.client.post("/api/spaces", json={"id": "trip", "name": "Our trip"})
        shown = {
            "#/tools/add": "Add two numbers.",
            "#/agents/greeter": "Model",
            "#/spaces": "Our trip",
            "#/servers": "No server is configured",
            "#/spaces/trip": "No message yet.",
            "#/agents": "greeter",
            f"#/calls/{waiting}": "Run again",
            f"#/inbox/{waiting}": "Transfer 1 EUR to Ada",
            "#/tools/fail": "Fail.",
            f"#/inbox/{answered}": "The operator rejected it",
            "#/audit": waiting[:12],
            "#/statistics": "Latency by tool",
        }
        async with open_console(served.url, "#/statistics", expected=("ERR_",)) as page:
            await expect(page.get_by_text("Live")).to_be_visible()
            for address, text in shown.items():
                await page.route("**/api/**", lambda route: route.abort())
                served.api.gateway.feed.close_listeners()
                await expect(page.get_by_text("The connection to the gateway is down.")).to_be_visible()
                await page.goto(f"{served.url}/{address}")
                if waiting not in address or "inbox" not in address:
                    await expect(page.get_by_text("The gateway cannot be reached.").first).to_be_visible()
                served.api.gateway.feed.is_closing = False
                await page.unroute("**/api/**")
                await expect(page.locator("main").get_by_text(text).first).to_be_visible()
                await expect(page.get_by_text("The gateway cannot be reached.")).to_have_count(0)


async def test_events_that_were_missed_are_made_up_for():
    async with serve(build_runtime()) as served, open_console(served.url, "#/calls") as page:
        feed = served.api.gateway.feed
        await expect(page.get_by_text("Live")).to_be_visible()
        await served.call("add", {"a": 1, "b": 2})
        await expect(page.get_by_role("link", name="add")).to_be_visible()
        ended = next(each.fields for each in feed.newest_events() if each.fields["type"] == "CallEnded")
        # So many at once that the stream of the page has no room for the last.
        for _ in range(MAX_BUFFERED_EVENTS):
            feed.add({"type": "CatalogueChanged", "added": [], "removed": []})
        feed.add({**ended, "call_id": "missed", "tool": "missed_tool"})
        await expect(page.get_by_role("link", name="missed_tool")).to_be_visible()


async def test_an_old_list_of_waits_does_not_bring_an_answered_one_back():
    async with serve(build_runtime()) as served, open_console(served.url) as page:
        await expect(page.get_by_text("Live")).to_be_visible()
        call_id = (await served.call("pay", {"amount": 1, "to": "Ada"})).json()["call_id"]
        await expect(page.get_by_role("link", name="pay")).to_be_visible()
        asked = asyncio.Event()
        may_arrive = asyncio.Event()

        async def delay(route):
            response = await route.fetch()
            asked.set()
            await may_arrive.wait()
            await route.fulfill(response=response)

        await page.route("**/api/pending?**", delay)
        await served.call("edit_note", {"path": "a.md"})  # makes the page load its list, which arrives late
        await asked.wait()
        await served.client.post(f"/api/pending/{call_id}/approve")
        await expect(page.get_by_role("link", name="pay")).to_have_count(0)
        may_arrive.set()
        await expect(page.get_by_role("link", name="edit_note")).to_be_visible()
        await expect(page.get_by_role("link", name="pay")).to_have_count(0)
        await page.unroute("**/api/pending?**")


@pytest.mark.parametrize(
    "fault",
    [
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'let x = 1'}))",
        "document.body.setAttribute('style', 'color: red')",
        "console.error('it broke')",
        "setTimeout(() => { throw new Error('it broke') })",
        "alert(1)",
    ],
)
async def test_a_page_that_breaks_a_rule_fails_its_test(fault):
    async with serve(build_runtime()) as served:
        await open_with(served.url, "1 + 1")
        with pytest.raises(AssertionError):
            await open_with(served.url, fault)


async def open_with(url, script):
    """Open the console and run a script in it."""
    async with open_console(url) as page:
        await page.get_by_text("Live").wait_for()
        await page.evaluate(script)
        await page.evaluate("new Promise((resolve) => setTimeout(resolve, 50))")


async def test_on_a_phone_a_detail_begins_at_its_top_and_the_list_stays_where_it_was(tmp_path):
    tools = [tool(lambda amount: amount, name=f"pay_{number:02}", effects={"read"}) for number in range(60)]
    async with (
        serve(Runtime(*tools, store=tmp_path / "s.db")) as served,
        open_console(served.url, "#/tools", width=390, height=844) as page,
    ):
        last = page.get_by_role("link", name="pay_59")
        await last.scroll_into_view_if_needed()
        position = await page.evaluate("scrollY")
        await last.click()
        await expect(page.get_by_role("heading", name="pay_59")).to_be_in_viewport()
        await page.get_by_role("link", name="Back to the list").click()
        await expect(last).to_be_in_viewport()

        assert await page.evaluate("scrollY") == position > 500
