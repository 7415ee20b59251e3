"""The inbox: approvals with edits, client tools, elicitations, several at once, and answers that come too late."""

from playwright.async_api import expect

from surehand import Pending, gateway, tool
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import Download, build_runtime
from tests.gateway.api.served_gateway import bearer, serve

PAY = {"amount": 120, "to": "Landlord"}


async def test_an_approval_shows_what_will_happen_and_runs_with_edited_arguments(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served:
        call_id = (await served.call("pay", PAY)).json()["call_id"]
        async with open_console(served.url) as page:
            await expect(page).to_have_title("(1) Inbox · surehand")
            await page.get_by_role("link", name="pay").click()
            await expect(page.get_by_text("Transfer 120 EUR to Landlord")).to_be_visible()
            await page.get_by_label("amount").fill("95")
            await expect(page.get_by_text("You have edited the arguments")).to_be_visible()
            await take_screenshot(page, "inbox-approval")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("Approved.")).to_be_visible()
            await expect(page.get_by_text("None paid 95 EUR to Landlord")).to_be_visible()
            await expect(page.locator(".detail-pane").get_by_text("waits for approval")).to_have_count(0)
            await expect(page).to_have_title("Inbox · surehand")
            assert page.url.endswith(f"#/inbox/{call_id}")


async def test_arguments_can_be_edited_as_json():
    async with serve(build_runtime()) as served:
        await served.call("pay", PAY)
        async with open_console(served.url) as page:
            await page.get_by_role("link", name="pay").click()
            await page.get_by_role("button", name="JSON").click()
            box = page.get_by_label("Arguments as JSON")
            await box.fill("{")
            await expect(page.get_by_text("This is not JSON yet")).to_be_visible()
            await expect(page.get_by_role("button", name="Approve")).to_be_disabled()
            await box.fill('{"amount": 1, "to": "Ada", "currency": "USD"}')
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("None paid 1 USD to Ada")).to_be_visible()


async def test_a_diff_is_shown_and_rejected_with_a_reason(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served:
        call_id = (await served.call("edit_note", {"path": "notes/plan.md"})).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            await expect(page.locator(".diff-added").first).to_contain_text("Tuesday")
            await take_screenshot(page, "inbox-diff")
            await page.get_by_label("Reason").fill("Wrong day")
            await page.get_by_role("button", name="Reject").click()
            await expect(page.get_by_text("Rejected.")).to_be_visible()
            await expect(page.get_by_text("Wrong day")).to_be_visible()


async def test_always_lets_the_same_user_call_without_being_asked(tmp_path):
    tokens = gateway.bearer_tokens(gateway.Token(gateway.hash_token("ada-token"), "ada"))
    async with serve(build_runtime(store=tmp_path / "s.db"), auth=tokens) as served:
        await served.call("pay", PAY, token="ada-token")
        async with open_console(served.url, expected=("401",)) as page:
            await page.get_by_label("Token").fill("ada-token")
            await page.get_by_role("button", name="Continue").click()
            await page.get_by_role("link", name="pay").click()
            await page.get_by_label("Always allow this tool for ada").check()
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("ada paid 120 EUR to Landlord")).to_be_visible()
        again = await served.call("pay", {"amount": 7, "to": "Bob"}, token="ada-token")

    assert again.json()["data"] == "ada paid 7 EUR to Bob"


async def test_a_client_tool_is_answered_after_a_restart_of_the_gateway(tmp_path):
    store = tmp_path / "s.db"
    question = {"question": "Which colour for the door?", "options": ["Green", "Blue"]}
    async with serve(build_runtime(store=store)) as served:
        call_id = (await served.call("pick_colour", question)).json()["call_id"]
    async with serve(build_runtime(store=store)) as served:
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            await expect(page.locator(".arguments").get_by_text("Which colour for the door?")).to_be_visible()
            await take_screenshot(page, "inbox-client-tool")
            await page.get_by_role("button", name="Blue").click()
            await expect(page.get_by_text("Answered.")).to_be_visible()
        outcome = (await served.client.get(f"/api/calls/{call_id}")).json()["outcome"]

    assert outcome["data"] == "Blue"


async def test_an_elicitation_is_a_form_with_a_field_for_each_property():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where the parcel goes."},
            "express": {"type": "boolean"},
            "size": {"type": "string", "enum": ["small", "large"]},
        },
        "required": ["city"],
    }

    @tool(effects={"write"})
    async def ship() -> Pending:
        """Ship a parcel."""
        return Pending("input", message="Where to?", request={"mode": "form", "schema": schema})

    async with serve(build_runtime(ship)) as served:
        call_id = (await served.call("ship")).json()["call_id"]
        async with open_console(served.url, f"#/inbox/{call_id}") as page:
            await page.get_by_label("city").fill("Berlin")
            await page.get_by_label("express").check()
            await page.get_by_label("size").select_option(label="large")
            await take_screenshot(page, "inbox-elicitation")
            await page.get_by_role("button", name="Send answer").click()
            await expect(page.get_by_text("Answered.")).to_be_visible()
        outcome = (await served.client.get(f"/api/calls/{call_id}")).json()["outcome"]

    assert outcome["data"] == {"action": "accept", "content": {"city": "Berlin", "express": True, "size": "large"}}


async def test_a_wait_of_an_unknown_kind_is_shown_as_json_and_can_be_answered():
    async with serve(build_runtime()) as served:
        call_id = (await served.call("pick_colour", {"question": "?"})).json()["call_id"]

        async def rename_kind(route):
            response = await route.fetch()
            body = await response.text()
            await route.fulfill(response=response, body=body.replace('"waiting_for":"result"', '"waiting_for":"vote"'))

        async with open_console(served.url, "#/tools") as page:
            await page.route("**/api/pending**", rename_kind)
            await page.goto(f"{served.url}/#/inbox/{call_id}")
            await page.reload()
            await expect(page.get_by_text("does not know waits of the kind “vote”")).to_be_visible()
            await expect(page.get_by_label("The wait")).to_contain_text('"vote"')
            await page.get_by_label("Answer", exact=True).fill("yes")
            await page.get_by_role("button", name="Send answer").click()
            await expect(page.get_by_text("Answered.")).to_be_visible()


async def test_several_are_approved_at_once(tmp_path):
    async with serve(build_runtime(store=tmp_path / "s.db")) as served:
        calls = [(await served.call("pay", {"amount": n, "to": "Ada"})).json()["call_id"] for n in range(1, 4)]
        async with open_console(served.url) as page:
            await page.get_by_label("Select all").check()
            await take_screenshot(page, "inbox-several")
            await page.get_by_role("button", name="Approve 3").click()
            await expect(page.get_by_text("Approved 3.")).to_be_visible()
            await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        outcomes = [(await served.client.get(f"/api/calls/{each}")).json()["outcome"]["data"] for each in calls]

    assert outcomes == [f"None paid {n} EUR to Ada" for n in range(1, 4)]


async def test_an_answer_that_came_too_late_says_who_answered(tmp_path):
    tokens = gateway.bearer_tokens(
        gateway.Token(gateway.hash_token("ada-token"), "ada"), gateway.operator_token("operator-token")
    )
    async with serve(build_runtime(store=tmp_path / "s.db"), auth=tokens) as served:
        call_id = (await served.call("pay", PAY, token="ada-token")).json()["call_id"]
        async with open_console(served.url, expected=("401", "409")) as page:
            await page.get_by_label("Token").fill("operator-token")
            await page.get_by_role("button", name="Continue").click()
            await page.get_by_role("link", name="pay").click()
            await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
            rejected = await served.client.post(f"/api/pending/{call_id}/reject", json={}, headers=bearer("ada-token"))
            await expect(page.get_by_text("This was answered elsewhere: ada rejected it")).to_be_visible()
            await take_screenshot(page, "inbox-too-late")
            await page.goto(f"{served.url}/#/tools")
            await page.reload()
            await page.goto(f"{served.url}/#/inbox/{call_id}")
            await expect(page.get_by_text("Ada rejected it")).to_be_visible()

    assert rejected.status_code == 200


async def test_a_new_question_appears_without_a_reload():
    async with serve(build_runtime()) as served, open_console(served.url) as page:
        await expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        await expect(page.get_by_text("Live")).to_be_visible()
        await served.call("pay", PAY)
        await expect(page.get_by_role("link", name="pay")).to_be_visible()
        await expect(page).to_have_title("(1) Inbox · surehand")


async def test_an_approved_call_shows_its_progress_where_it_was_approved():
    download = Download()
    slow = download.tool.evolve(confirm=True)
    async with serve(build_runtime(slow)) as served:
        await served.call("download", {"name": "film"})
        async with open_console(served.url) as page:
            await page.get_by_role("link", name="download").click()
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_text("half of it 50 %")).to_be_in_viewport()
            await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
            await take_screenshot(page, "inbox-progress")
            download.may_go_on.set()
            await expect(page.get_by_text("film is here")).to_be_visible()


async def test_answering_several_shows_that_it_goes_on():
    download = Download()
    slow = download.tool.evolve(confirm=True)
    async with serve(build_runtime(slow)) as served:
        for name in ("film", "song"):
            await served.call("download", {"name": name})
        async with open_console(served.url) as page:
            await page.get_by_label("Select all").check()
            await page.get_by_role("button", name="Approve 2").click()
            await expect(page.get_by_text("Answering …")).to_be_visible()
            download.may_go_on.set()
            await expect(page.get_by_text("Approved 2.")).to_be_visible()
