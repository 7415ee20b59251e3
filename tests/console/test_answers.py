"""Further answers in the inbox: to unknown effects, answers that come too late, and to questions of servers."""

from contextlib import asynccontextmanager

from playwright.async_api import expect

from surehand import Pending, Runtime, gateway, tool
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import build_runtime, pick
from tests.gateway.api.served_gateway import bearer, serve
from tests.gateway.api.test_unknown_effects import kill_in_the_effect, leave_unknown_effect, pay, transfer

LETTER = {"amount": 120, "to": "Landlord"}
OPERATOR = gateway.operator_token("operator-token")
ADA = gateway.Token(gateway.hash_token("ada-token"), "ada")
TWO_PEOPLE = gateway.bearer_tokens(ADA, OPERATOR)


async def test_a_person_says_that_a_killed_call_has_happened(tmp_path):
    await leave_unknown_effect(tmp_path / "s.db")
    async with serve(Runtime(pay, store=tmp_path / "s.db")) as served, open_console(served.url) as page:
        await expect(page.locator(".row-item")).to_contain_text("unknown effect")
        await expect(page.get_by_label("Select pay")).to_be_disabled()
        await page.get_by_role("link", name="pay").click()
        await expect(page.get_by_text("It is not known whether pay has happened").last).to_be_visible()
        await expect(page.get_by_role("button", name="Reject")).to_have_count(0)
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        await take_screenshot(page, "inbox-unknown-effect")
        await page.get_by_label("Its result").fill("The bank has sent it.")
        await page.get_by_role("button", name="It happened").click()
        await expect(page.get_by_text("Answered.", exact=True)).to_be_visible()
        outcome = (await served.client.get("/api/calls/c1")).json()["outcome"]

    assert outcome["data"] == "The bank has sent it."


async def test_a_person_says_that_an_approved_call_has_not_happened(tmp_path):
    await leave_unknown_effect(tmp_path / "s.db", "transfer")
    async with serve(Runtime(transfer, store=tmp_path / "s.db")) as served:
        async with open_console(served.url, "#/inbox/c1", width=375, height=812, dark=True) as page:
            await expect(page.get_by_role("button", name="It did not happen")).to_be_visible()
            await take_screenshot(page, "inbox-unknown-effect-phone-dark")
            await page.get_by_role("button", name="It did not happen").click()
            await expect(page.get_by_text("Answered.", exact=True)).to_be_visible()
            await expect(page.get_by_role("alert")).to_contain_text("transfer has not happened")
        outcome = (await served.client.get("/api/calls/c1")).json()["outcome"]

    assert (outcome["status"], outcome["code"]) == ("failed", "failed")


async def test_a_call_that_is_killed_meanwhile_appears_without_a_reload(tmp_path):
    store = tmp_path / "s.db"
    async with serve(Runtime(pay, store=store)) as served, open_console(served.url) as page:
        await expect(page.get_by_text("Live")).to_be_visible()
        await kill_in_the_effect(store)
        await expect(page.locator(".row-item")).to_contain_text("unknown effect")
        await expect(page).to_have_title("(1) Inbox · surehand")


@asynccontextmanager
async def open_without_events(served, path, token=""):
    """The console while its stream does not get through: it hears of no answer but by its own requests."""
    expected = ("401", "404", "409", "ERR_FAILED")
    async with open_console(served.url, "#/tools", expected=expected) as page:
        await page.route("**/api/events", lambda route: route.abort())
        await page.goto(f"{served.url}/{path}")
        await page.reload()
        if token:
            await page.get_by_label("Token").fill(token)
            await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_text("The connection to the gateway is down.")).to_be_visible()
        yield page
        await page.unroute_all(behavior="wait")


async def test_approve_after_somebody_else_has_rejected_says_who_it_was(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db"), auth=TWO_PEOPLE) as served:
        call_id = (await served.call("pay", LETTER, token="ada-token")).json()["call_id"]
        async with open_without_events(served, f"#/inbox/{call_id}", "operator-token") as page:
            await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
            await served.client.post(f"/api/pending/{call_id}/reject", json={}, headers=bearer("ada-token"))
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("alert")).to_contain_text("Too late: ada rejected it")
            await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
            await expect(page).to_have_title("Inbox · surehand")
            await take_screenshot(page, "inbox-refused-too-late")


async def test_an_answer_that_is_refused_while_its_question_is_open_says_why():
    @tool(
        name="count",
        description="Count.",
        parameters={"properties": {"n": {"type": "integer", "maximum": 9}}},
        confirm=True,
    )
    async def count(**arguments):
        return arguments["n"]

    async with serve(build_runtime(count)) as served:
        call_id = (await served.call("count", {"n": 1})).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}", expected=("422",)) as page:
            await page.get_by_label("n", exact=True).fill("10")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("alert")).to_contain_text("10")
            await expect(page.get_by_label("n", exact=True)).to_have_value("10")
            await page.get_by_label("n", exact=True).fill("9")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("Approved.", exact=True)).to_be_visible()


async def ask_twice(served):
    """The id of a call by ada that asks for an approval and then for a choice, and the path of its answers."""
    call_id = (await served.call("choose", {"question": "Which door?"}, token="ada-token")).json()["call_id"]
    return call_id, f"/api/pending/{call_id}"


async def test_a_late_answer_names_who_answered_that_question_and_not_the_next_one(tmp_path):
    choose = pick.evolve(name="choose", confirm=True)
    async with serve(build_runtime(choose, store=tmp_path / "s.db"), auth=TWO_PEOPLE) as served:
        call_id, path = await ask_twice(served)
        async with open_without_events(served, f"#/inbox/{call_id}", "operator-token") as page:
            await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
            await served.client.post(f"{path}/approve", json={}, headers=bearer("ada-token"))
            await served.client.post(f"{path}/result", json={"result": "left"}, headers=bearer("operator-token"))
            await page.get_by_role("button", name="Reject").click()
            await expect(page.get_by_role("alert")).to_contain_text("Too late: ada approved it")


async def test_a_refused_answer_to_an_open_question_says_why_and_can_be_given_again(tmp_path):
    choose = pick.evolve(name="choose", confirm=True)
    refusal = {"code": "conflict", "title": "Conflict", "detail": "Others were faster ten times. Try again."}
    async with serve(build_runtime(choose, store=tmp_path / "s.db"), auth=TWO_PEOPLE) as served:
        call_id, path = await ask_twice(served)
        await served.client.post(f"{path}/approve", json={}, headers=bearer("ada-token"))
        async with open_without_events(served, f"#/inbox/{call_id}", "operator-token") as page:
            await page.route(f"**{path}/result", lambda route: route.fulfill(status=409, json=refusal), times=1)
            await page.get_by_label("Answer", exact=True).fill("The left one")
            await page.get_by_role("button", name="Send answer").click()
            await expect(page.get_by_role("alert")).to_have_text("Others were faster ten times. Try again.")
            await expect(page.get_by_label("Answer", exact=True)).to_have_value("The left one")
            await page.get_by_role("button", name="Send answer").click()
            await expect(page.get_by_text("Answered.", exact=True)).to_be_visible()


async def test_a_late_answer_in_a_card_stays_until_it_is_dismissed(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db"), auth=TWO_PEOPLE) as served:
        await served.client.post("/api/spaces", json={"id": "trip", "name": "Trip"}, headers=bearer("operator-token"))
        members = "/api/spaces/trip/members"
        await served.client.post(members, json={"id": "ada"}, headers=bearer("operator-token"))
        waiting = await served.call("pay", LETTER, token="ada-token", space="trip")
        call_id = waiting.json()["call_id"]
        async with open_without_events(served, "#/spaces/trip", "operator-token") as page:
            card = page.get_by_label("Call of pay")
            await expect(card.get_by_role("button", name="Approve")).to_be_enabled()
            await served.client.post(f"/api/pending/{call_id}/reject", json={}, headers=bearer("ada-token"))
            await card.get_by_role("button", name="Approve").click()
            await expect(card.get_by_text("Too late: ada rejected it")).to_be_visible()
            await take_screenshot(page, "card-too-late")
            await card.get_by_role("button", name="Dismiss").click()
            await expect(card.get_by_text("Too late")).to_have_count(0)


def asking(**request):
    """A tool that asks for input."""

    @tool(effects={"write"})
    async def ship() -> Pending:
        """Ship a parcel."""
        return Pending("input", message="The post office asks.", request=request)

    return ship


ADDRESS = {
    "mode": "url",
    "url": "https://post.example/sign-in?for=parcel",
    "host": "post.example",
    "message": "Sign in.",
}
WEIGHT = {
    "type": "object",
    "properties": {
        "weight": {"type": "number", "description": "In kilograms."},
        "fragile": {"type": "boolean"},
        "speed": {"type": "string", "enum": ["slow", "fast"], "default": "slow"},
    },
    "required": ["weight", "fragile"],
}


async def test_an_address_of_a_server_is_opened_and_confirmed():
    async with serve(build_runtime(asking(**ADDRESS, looks_like="p\u043est.example"))) as served:
        call_id = (await served.call("ship")).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            link = page.get_by_role("link", name="https://post.example/sign-in")
            await expect(link).to_have_attribute("href", ADDRESS["url"])
            await expect(link).to_have_attribute("rel", "noopener noreferrer")
            await expect(page.get_by_text("It belongs to the host post.example.")).to_be_visible()
            await expect(page.get_by_text("The host only looks like")).to_be_visible()
            await take_screenshot(page, "inbox-elicitation-address")
            await page.get_by_role("button", name="I am done there").click()
            await expect(page.get_by_text("Answered.", exact=True)).to_be_visible()
        outcome = (await served.client.get(f"/api/calls/{call_id}")).json()["outcome"]

    assert outcome["data"] is True


async def test_several_questions_of_a_server_are_answered_together():
    form = {"mode": "form", "message": "How heavy is it?", "schema": WEIGHT}
    form_of_place = {
        "mode": "form",
        "message": "",
        "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    requests = {"weight": form, "place": form_of_place, "account": ADDRESS}
    async with serve(build_runtime(asking(mode="several", requests=requests))) as served:
        call_id = (await served.call("ship")).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            send = page.get_by_role("button", name="Send answers")
            await page.get_by_label("weight", exact=True).fill("heavy")
            await expect(page.get_by_text("heavy is not a number.")).to_be_visible()
            await expect(send).to_be_disabled()
            await page.get_by_label("city").fill("Oslo")
            await expect(send).to_be_disabled()
            await page.get_by_label("weight", exact=True).fill("2.5")
            await take_screenshot(page, "inbox-elicitation-several")
            await send.click()
            await expect(page.get_by_text("Answered.", exact=True)).to_be_visible()
        outcome = (await served.client.get(f"/api/calls/{call_id}")).json()["outcome"]

    assert outcome["data"] == {
        "weight": {"action": "accept", "content": {"weight": 2.5, "fragile": False, "speed": "slow"}},
        "place": {"action": "accept", "content": {"city": "Oslo"}},
        "account": {"action": "accept"},
    }
