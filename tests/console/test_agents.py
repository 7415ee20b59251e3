"""Agents: a chat with streaming text, an approval in place, steering, and runs with their steps."""

import asyncio

from playwright.async_api import expect

from surehand import Agent
from surehand.testing import ScriptedModel
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import build_runtime, pay
from tests.gateway.api.served_gateway import serve


async def test_a_chat_goes_through_an_approval_in_place(tmp_path):
    model = ScriptedModel([("pay", {"amount": 5, "to": "Ada"})], "It is paid.", "You are welcome.")
    agent = Agent("payer", model=model, tools=[pay])
    async with (
        serve(build_runtime(store=tmp_path / "s.db"), agents=[agent]) as served,
        open_console(served.url, "#/agents") as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        await page.get_by_role("link", name="payer").first.click()
        await page.get_by_label("Message").fill("Pay Ada 5.")
        await page.get_by_role("button", name="Send").click()
        card = page.get_by_label("Call of pay")
        await expect(card.get_by_role("button", name="Approve")).to_be_visible()
        await take_screenshot(page, "agents-approval")
        await card.get_by_role("button", name="Approve").click()
        await expect(page.locator(".chat").get_by_text("It is paid.")).to_be_visible()
        await expect(card.get_by_text("ok", exact=True)).to_be_visible()
        await page.get_by_label("Message").fill("Thank you.")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".chat").get_by_text("You are welcome.")).to_be_visible()
        await take_screenshot(page, "agents-chat")
        await page.get_by_role("link", name="Steps").first.click()
        await expect(page.get_by_role("heading", name="Run", exact=True, level=2)).to_be_visible()
        await expect(page.locator(".run").get_by_text("It is paid.")).to_be_visible()
        await expect(page.locator(".facts")).to_contain_text("payer")
        await expect(page.locator(".facts")).to_contain_text("Started")
        await expect(page.get_by_label("Prompt")).to_have_text("Pay Ada 5.")
        await take_screenshot(page, "agents-run")


async def test_the_question_of_a_sub_agent_is_answered_in_the_chat(tmp_path):
    clerk = Agent("clerk", model=ScriptedModel([("pay", {"amount": 5, "to": "Ada"})], "Ada is paid."), tools=[pay])
    model = ScriptedModel([("agent__clerk", {"prompt": "Pay Ada."})], "All is done.")
    boss = Agent("boss", model=model, tools=[], agents=[clerk])
    async with (
        serve(build_runtime(store=tmp_path / "s.db"), agents=[boss]) as served,
        open_console(served.url, "#/agents/boss") as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        await page.get_by_label("Message").fill("Pay Ada.")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_text("Asked by boss → clerk")).to_be_visible()
        card = page.get_by_label("Call of pay")
        await take_screenshot(page, "agents-sub-agent")
        await card.get_by_role("button", name="Approve").click()
        await expect(page.locator(".chat").get_by_text("All is done.")).to_be_visible()
        await expect(page.get_by_text("Asked by boss")).to_have_count(0)


async def test_an_agent_is_steered_while_it_works(tmp_path):
    asked = asyncio.Event()
    may_answer = asyncio.Event()

    async def think(messages):
        asked.set()
        await may_answer.wait()
        return [("add", {"a": 1, "b": 2})]

    agent = Agent("thinker", model=ScriptedModel(think, lambda messages: str(messages[-1]["content"])), tools=["add"])
    async with (
        serve(build_runtime(store=tmp_path / "s.db"), agents=[agent]) as served,
        open_console(served.url, "#/agents/thinker") as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        await page.get_by_label("Message").fill("Think.")
        await page.get_by_role("button", name="Send").click()
        await asked.wait()
        await page.get_by_label("Steer the agent while it works").fill("Answer in French.")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_text("the agent reads it before its next answer")).to_be_visible()
        await expect(page.locator(".chat .bubble.own").last).to_have_text("Answer in French.")
        may_answer.set()
        await expect(page.locator(".chat .bubble").last).to_contain_text("Answer in French.")
