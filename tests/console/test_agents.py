"""Agents: a chat with streaming text, an approval in place, steering, and runs with their steps."""

import asyncio
import re

from playwright.async_api import expect

from surehand import Agent, Queue
from surehand.agent.models.base import AnswerRestarted, ModelAnswer, ModelCall, TextChunk, ToolInputChunk
from surehand.testing import ScriptedModel
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import Download, build_runtime, pay
from tests.gateway.api.served_gateway import serve, until


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


class PacedModel:
    """A model that gives the chunks of its answers one by one, each when the test says so."""

    name = "paced"

    def __init__(self, *answers):
        self._answers = iter(answers)
        self._may_go_on = asyncio.Semaphore(0)

    def give_next(self):
        self._may_go_on.release()

    async def stream(self, request):
        for chunk in next(self._answers):
            await self._may_go_on.acquire()
            yield chunk


async def test_texts_and_arguments_are_shown_while_the_model_writes_them(tmp_path):
    call = ModelCall("download", '{"name": "film"}')
    model = PacedModel(
        [
            TextChunk("I look it up"),
            AnswerRestarted("The server was busy.", 1, 0.1),
            TextChunk("Now I look"),
            ToolInputChunk(0, "download", '{"name": '),
            ToolInputChunk(0, "download", '"film"}'),
            ModelAnswer("Now I look", (call,)),
        ],
        [TextChunk("Here "), ModelAnswer("Here it is.")],
    )
    download = Download()
    slow = download.tool.evolve(queue="disk")
    agent = Agent("finder", model=model, tools=[slow])
    runtime = build_runtime(slow, store=tmp_path / "s.db", queues={"disk": Queue(concurrent=1)})
    async with (
        serve(runtime, agents=[agent]) as served,
        open_console(served.url, "#/agents/finder") as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        other = asyncio.create_task(served.call("download", {"name": "other"}))
        await page.get_by_label("Message").fill("Find the film.")
        await page.get_by_role("button", name="Send").click()
        bubble = page.locator(".run .bubble")
        model.give_next()
        await expect(bubble).to_have_text("I look it up")
        model.give_next()
        await expect(page.get_by_text("The server was busy.")).to_be_visible()
        await expect(bubble).to_have_count(0)
        model.give_next()
        await expect(bubble).to_have_text("Now I look")
        model.give_next()
        card = page.get_by_label("Call of download")
        await expect(card.get_by_text("writing", exact=True)).to_be_visible()
        await expect(card.get_by_label("Arguments, as they are written")).to_have_text('{"name": ')
        await take_screenshot(page, "agents-writing")
        await page.get_by_role("navigation").get_by_role("link", name="Calls").click()
        await expect(page.get_by_text("No call matches.")).to_be_visible()
        event_log = served.api.gateway.feed.event_log
        number = event_log.last_number
        model.give_next()
        await until(lambda: event_log.last_number > number)
        await served.call("add", {"a": 1, "b": 2})
        # A call whose arguments are being written has not begun: it is no row of its own.
        await expect(page.locator(".row-item")).to_have_text(re.compile("^add"))
        await page.go_back()
        model.give_next()
        await expect(card.get_by_text("queued", exact=True)).to_be_visible()
        await expect(card.get_by_text("in the queue disk")).to_be_visible()
        await expect(bubble).to_have_text("Now I look")
        download.may_go_on.set()
        await expect(card.get_by_text("ok", exact=True)).to_be_visible()
        model.give_next()
        await expect(bubble.last).to_have_text("Here")
        model.give_next()
        await expect(bubble.last).to_have_text("Here it is.")
        await expect(bubble).to_have_count(2)
        await other


async def test_a_message_that_could_not_be_sent_stays_with_the_reason(tmp_path):
    may_answer = asyncio.Event()

    async def think(messages):
        await may_answer.wait()
        return "Done."

    agent = Agent("thinker", model=ScriptedModel(think), tools=[])
    async with (
        serve(build_runtime(store=tmp_path / "s.db"), agents=[agent]) as served,
        open_console(served.url, "#/agents/thinker", expected=("ERR_", "503")) as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        await page.get_by_label("Message").fill("Think.")
        await page.get_by_role("button", name="Send").click()
        box = page.get_by_label("Steer the agent while it works")
        await page.route("**/steer", lambda route: route.abort())
        await box.fill("Answer in French.")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_text("Not sent: The gateway cannot be reached.")).to_be_visible()
        await expect(box).to_have_value("Answer in French.")
        await expect(page.get_by_text("the agent reads it before its next answer")).to_have_count(0)
        await page.unroute("**/steer")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".chat .bubble.own").last).to_have_text("Answer in French.")
        await expect(page.get_by_text("Not sent")).to_have_count(0)
        await page.get_by_role("button", name="Stop the run").click()
        await expect(page.get_by_text("You stopped it.")).to_be_visible()
        may_answer.set()


async def test_a_chat_is_found_again_when_its_first_events_were_missed(tmp_path):
    may_answer = asyncio.Event()

    async def think(messages):
        await may_answer.wait()
        return "It is done."

    agent = Agent("thinker", model=ScriptedModel(think), tools=[])
    async with (
        serve(build_runtime(store=tmp_path / "s.db"), agents=[agent]) as served,
        open_console(served.url, "#/agents/thinker", expected=("ERR_", "503")) as page,
    ):
        await expect(page.get_by_text("Live")).to_be_visible()
        # The stream of events is down, and what was missed is not told: as after a restart on a store in memory.
        await page.route("**/api/events", lambda route: route.abort())
        served.api.gateway.feed.close_listeners()
        await expect(page.get_by_text("The connection to the gateway is down.")).to_be_visible()
        served.api.gateway.feed.is_closing = False
        await page.get_by_label("Message").fill("Think.")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_text("Thinking …")).to_be_visible()
        await page.unroute("**/api/events")
        await expect(page.get_by_role("button", name="Stop the run")).to_be_visible()
        may_answer.set()
        await expect(page.locator(".run .bubble")).to_have_text("It is done.")
