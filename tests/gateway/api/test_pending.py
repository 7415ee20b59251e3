"""Calls that wait, and answers to them over HTTP."""

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from mcp_types import ElicitResult

from surehand import Context, Runtime, tool
from surehand.core.outcome import Outcome
from surehand.gateway.access.answers import AnswerRule
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from surehand.testing import ManualClock
from tests.gateway.api.served_gateway import bearer, build_runtime, serve
from tests.gateway.mcp.sdk_clients import ERAS, http_client

ADA = Token(hash_token("ada"), "ada")
BOB = Token(hash_token("bob"), "bob")
EVE = Token(hash_token("eve"), "eve", frozenset({"tools:*", "approver"}))


async def test_a_waiting_call_is_listed_and_approved():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        [listed] = (await gateway.client.get("/api/pending")).json()["items"]
        shown = (await gateway.client.get(f"/api/pending/{call_id}")).json()
        approved = await gateway.client.post(f"/api/pending/{call_id}/approve")
        none_left = (await gateway.client.get("/api/pending")).json()
        gone = await gateway.client.get(f"/api/pending/{call_id}")

    assert listed == shown
    assert (listed["tool"], listed["arguments"], listed["may_answer"]) == ("pay", {"amount": 5}, True)
    assert (approved.status_code, approved.json()["data"]) == (200, "None paid 5")
    assert none_left == {"items": [], "next": None}
    assert gone.status_code == 404


async def test_the_same_answer_again_is_the_stored_outcome_and_a_different_one_409():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        first = await gateway.client.post(f"/api/pending/{call_id}/approve")
        again = await gateway.client.post(f"/api/pending/{call_id}/approve")
        other = await gateway.client.post(f"/api/pending/{call_id}/reject")

    assert first.json() == again.json()
    assert (other.status_code, other.json()["code"]) == (409, "conflict")


async def test_a_rejected_call_does_not_run():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        rejected = await gateway.client.post(f"/api/pending/{call_id}/reject", json={"reason": "too expensive"})

    assert rejected.status_code == 200
    assert (rejected.json()["status"], rejected.json()["code"]) == ("failed", "rejected")
    assert "too expensive" in rejected.json()["message"]


async def test_a_question_for_a_result_is_rejected_or_answered_with_a_failure():
    ask = tool.client("ask", "Ask a person.", parameters={"type": "object", "properties": {}}, reply="later")
    async with serve(Runtime(ask)) as gateway:
        one, other = [(await gateway.call("ask", {})).json()["call_id"] for _ in range(2)]
        rejected = await gateway.client.post(f"/api/pending/{one}/reject", json={"reason": "not now"})
        both = await gateway.client.post(f"/api/pending/{other}/result", json={"result": 1, "failed": "no"})
        failed = await gateway.client.post(f"/api/pending/{other}/result", json={"failed": "It broke."})

    assert (rejected.json()["code"], both.status_code) == ("rejected", 422)
    assert "not now" in rejected.json()["message"]
    assert (failed.json()["code"], failed.json()["message"]) == ("failed", "It broke.")


async def test_edited_arguments_are_validated_and_invalid_ones_leave_the_call_waiting():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        url = f"/api/pending/{call_id}/approve"
        invalid = await gateway.client.post(url, json={"arguments": {"amount": "much"}})
        valid = await gateway.client.post(url, json={"arguments": {"amount": 4}})

    assert (invalid.status_code, invalid.json()["code"]) == (422, "invalid_arguments")
    assert valid.json()["data"] == "None paid 4"


async def test_an_answer_to_another_question_is_409():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5})).json()["call_id"]
        response = await gateway.client.post(f"/api/pending/{call_id}/approve", json={"round": 2})

    assert response.status_code == 409


async def test_waiting_calls_are_listed_in_pages_oldest_first():
    async with serve(build_runtime()) as gateway:
        made = [(await gateway.call("pay", {"amount": each})).json()["call_id"] for each in range(5)]
        first = (await gateway.client.get("/api/pending", params={"limit": 3})).json()
        second = (await gateway.client.get("/api/pending", params={"limit": 3, "cursor": first["next"]})).json()
        bad = await gateway.client.get("/api/pending", params={"cursor": "x"})

    assert [call["call_id"] for page in (first, second) for call in page["items"]] == made
    assert second["next"] is None
    assert bad.status_code == 400


async def test_a_hundred_approvals_at_once_run_a_call_once():
    runs = []

    @tool(effects={"write"}, confirm=True)
    async def buy() -> str:
        """Buy it."""
        runs.append(1)
        return "bought"

    async with serve(Runtime(buy)) as gateway:
        call_id = (await gateway.call("buy")).json()["call_id"]
        requests = (gateway.client.post(f"/api/pending/{call_id}/approve") for _ in range(100))
        answers = await asyncio.gather(*requests)

    assert runs == [1]
    assert {(answer.status_code, answer.json()["data"]) for answer in answers} == {(200, "bought")}


async def test_the_requester_may_answer_and_others_see_nothing(tmp_path):
    runtime = build_runtime(store=tmp_path / "calls.db")
    async with serve(runtime, auth=bearer_tokens(ADA, BOB)) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}"
        hidden = await gateway.client.get(url, headers=bearer("bob"))
        listed = (await gateway.client.get("/api/pending", headers=bearer("bob"))).json()["items"]
        refused = await gateway.client.post(f"{url}/approve", headers=bearer("bob"))
        unknown = await gateway.client.post("/api/pending/nothing/approve", headers=bearer("bob"))
        approved = await gateway.client.post(f"{url}/approve", headers=bearer("ada"))
        audit = (await gateway.client.get("/api/audit", headers=bearer("bob"))).json()["items"]

    assert listed == []
    assert hidden.status_code == refused.status_code == unknown.status_code == 404
    assert refused.json()["detail"].replace(call_id, "nothing") == unknown.json()["detail"]
    assert approved.json()["data"] == "ada paid 5"
    assert {row["kind"] for row in audit} == {"refused"}
    assert {row["by"] for row in audit} == {"bob"}


async def test_a_rule_leaves_the_answer_to_others_than_the_requester(tmp_path):
    rules = [AnswerRule(("user:bob", "scope:approver"), tools=("pay",))]
    runtime = build_runtime(store=tmp_path / "calls.db")
    async with serve(runtime, auth=bearer_tokens(ADA, BOB, EVE), answers=rules) as gateway:
        call_ids = [(await gateway.call("pay", {"amount": each}, token="ada")).json()["call_id"] for each in (1, 2)]
        own = (await gateway.client.get(f"/api/pending/{call_ids[0]}", headers=bearer("ada"))).json()
        refused = await gateway.client.post(f"/api/pending/{call_ids[0]}/approve", headers=bearer("ada"))
        seen_by_bob = (await gateway.client.get("/api/pending", headers=bearer("bob"))).json()["items"]
        by_bob = await gateway.client.post(f"/api/pending/{call_ids[0]}/approve", headers=bearer("bob"))
        by_eve = await gateway.client.post(f"/api/pending/{call_ids[1]}/approve", headers=bearer("eve"))
        audit = (await gateway.client.get("/api/audit", headers=bearer("ada"))).json()["items"]

    assert own["may_answer"] is False
    assert refused.status_code == 403
    assert [call["call_id"] for call in seen_by_bob] == call_ids
    assert by_bob.json()["data"] == "ada paid 1"  # with the requester's rights
    assert by_eve.json()["data"] == "ada paid 2"
    kinds = [(row["kind"], row["by"]) for row in audit if row["call_id"] == call_ids[0]]
    assert ("refused", "ada") in kinds
    assert ("answer", "bob") in kinds


async def test_an_answer_of_somebody_else_than_the_requester_may_be_repeated(tmp_path):
    rules = [AnswerRule(("scope:approver",), tools=("pay",))]
    runtime = build_runtime(store=tmp_path / "calls.db")
    async with serve(runtime, auth=bearer_tokens(ADA, BOB, EVE), answers=rules) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}"
        approved = [await gateway.client.post(f"{url}/approve", headers=bearer("eve")) for _ in range(2)]
        named = await gateway.client.post(f"{url}/approve", json={"round": 1}, headers=bearer("eve"))
        rejected = await gateway.client.post(f"{url}/reject", headers=bearer("eve"))
        by_bob = await gateway.client.post(f"{url}/approve", headers=bearer("bob"))
        call_of_ada = await gateway.client.get(f"/api/calls/{call_id}", headers=bearer("eve"))

    assert [(each.status_code, each.json()["data"]) for each in (*approved, named)] == [(200, "ada paid 5")] * 3
    assert (rejected.status_code, rejected.json()["code"]) == (409, "conflict")
    assert (by_bob.status_code, call_of_ada.status_code) == (404, 404)


async def test_of_different_answers_at_once_the_later_ones_are_409_for_an_approver(tmp_path):
    rules = [AnswerRule(("scope:approver",), tools=("pay",))]
    runtime = build_runtime(store=tmp_path / "calls.db")
    async with serve(runtime, auth=bearer_tokens(ADA, EVE), answers=rules) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}/approve"
        edits = [{"arguments": {"amount": each}} for each in range(20)]
        requests = (gateway.client.post(url, json=each, headers=bearer("eve")) for each in edits)
        answers = [each.status_code for each in await asyncio.gather(*requests)]

    assert sorted(answers) == [200, *[409] * 19]


async def test_the_answer_to_an_inner_call_may_be_repeated_by_those_who_may_answer_it(tmp_path):
    @tool(effects={"write"})
    async def tidy(ctx: Context) -> Outcome:
        """Tidy up."""
        return await ctx.call("pay", {"amount": 5})

    rules = [AnswerRule(("scope:approver",), tools=("pay",))]
    runtime = build_runtime(tidy, store=tmp_path / "calls.db")
    async with serve(runtime, auth=bearer_tokens(ADA, BOB, EVE), answers=rules) as gateway:
        call_id = (await gateway.call("tidy", token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}/approve"
        approved = [await gateway.client.post(url, headers=bearer("eve")) for _ in range(2)]
        by_bob = await gateway.client.post(url, headers=bearer("bob"))

    assert [each.status_code for each in approved] == [200, 200]
    assert approved[0].json() == approved[1].json()
    assert by_bob.status_code == 404


async def test_an_answer_counts_only_for_the_question_that_it_was_judged_for(tmp_path):
    """The requester knows the id beforehand, and sends answers before, while and after the question is opened."""
    paid = []

    @tool(effects={"write"}, confirm=True)
    async def buy() -> str:
        """Buy."""
        paid.append(1)
        return "bought"

    runtime = Runtime(buy, store=tmp_path / "calls.db")
    rules = [AnswerRule(by=("user:bob",))]
    async with serve(runtime, auth=bearer_tokens(ADA, BOB), answers=rules) as gateway:
        for number in range(8):
            key = {"Idempotency-Key": f"k{number}", **bearer("ada")}
            url = f"/api/pending/k{number}~{sha256(b'ada').hexdigest()[:32]}/approve"
            call = gateway.client.post("/api/tools/buy/call", json={"arguments": {}}, headers=key)
            answers = [gateway.client.post(url, headers=bearer("ada")) for _ in range(12)]
            called, *answered = await asyncio.gather(call, *answers)
            assert called.status_code == 202
            assert {answer.status_code for answer in answered} <= {403, 404}

    assert paid == []


async def test_a_question_that_is_not_open_yet_cannot_be_answered():
    async with serve(build_runtime(), auth=bearer_tokens(ADA)) as gateway:
        call_id = (await gateway.call("pay", {"amount": 5}, token="ada")).json()["call_id"]
        url = f"/api/pending/{call_id}/approve"
        early = await gateway.client.post(url, json={"round": 2}, headers=bearer("ada"))
        approved = await gateway.client.post(url, json={"round": 1}, headers=bearer("ada"))

    assert early.status_code == 409
    assert approved.json()["data"] == "ada paid 5"


@pytest.mark.parametrize("era", ERAS)
async def test_an_mcp_client_is_not_asked_what_a_rule_leaves_to_others(tmp_path, era):
    asked = []

    async def accept(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={})

    runtime = build_runtime(store=tmp_path / "calls.db")
    rules = [AnswerRule(by=("user:bob",), tools=("pay",)), AnswerRule(by=("requester",))]
    async with serve(runtime, auth=bearer_tokens(ADA, BOB), answers=rules) as gateway:
        async with http_client(f"{gateway.url}/mcp", era, token="ada", elicitation_callback=accept) as client:
            waiting = await client.call_tool("pay", {"amount": 5})
        [call] = (await gateway.client.get("/api/pending", headers=bearer("bob"))).json()["items"]
        approved = await gateway.client.post(f"/api/pending/{call['call_id']}/approve", headers=bearer("bob"))

    assert asked == []
    assert "pending" in waiting.content[0].text
    assert approved.json()["data"] == "ada paid 5"


@pytest.mark.parametrize(("answer", "body"), [("result", {"result": 1}), ("result", {"failed": "no"}), ("reject", {})])
async def test_an_answer_to_an_expired_wait_is_410(tmp_path: Path, answer: str, body: dict[str, object]):
    clock = ManualClock()
    ask = tool.client("ask", "Ask.", reply="later", expires="1h")
    async with serve(Runtime(ask, store=tmp_path / "calls.db", clock=clock), auth=bearer_tokens(ADA)) as gateway:
        call_id = (await gateway.call("ask", token="ada")).json()["call_id"]
        await clock.advance(3_601)
        late = await gateway.client.post(f"/api/pending/{call_id}/{answer}", json=body, headers=bearer("ada"))

    assert (late.status_code, late.json()["code"]) == (410, "expired")
