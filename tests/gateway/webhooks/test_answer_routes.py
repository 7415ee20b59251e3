"""Answers that other programs send as signed messages, in the name of a person."""

import asyncio
import json

import pytest

from surehand.gateway.access.answers import AnswerRule
from surehand.gateway.access.request_limits import GatewayLimits
from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from surehand.gateway.access.unverified_bodies import MAX_ARRIVING_PER_ADDRESS, UnverifiedBodies
from surehand.gateway.problems import Problem
from surehand.gateway.webhooks.answer_routes import MAX_AUDITED_PER_MINUTE, UNKNOWN_WEBHOOK
from surehand.gateway.webhooks.signatures import new_webhook_secret, sign_webhook
from surehand.gateway.webhooks.webhook import Webhook
from surehand.testing import ManualClock
from tests.gateway.api.served_gateway import bearer, build_runtime, serve
from tests.gateway.webhooks.webhook_receiver import OLD_SECRET, SECRET

PATH = "/api/webhooks/bridge/answers"
ADA = Token(hash_token("ada"), "ada")
BRIDGE = Webhook("bridge", (SECRET,), people=("ada", "grace"))


def message(call_id: str, action: str = "approve", by: str = "ada", **fields) -> bytes:
    return json.dumps({"call_id": call_id, "round": 1, "action": action, "by": by, **fields}).encode()


class AdasGateway:
    """A gateway with a call of Ada's that waits, and what is sent to it by the webhook."""

    def __init__(self, gateway, call_id: str) -> None:
        self.gateway = gateway
        self.call_id = call_id

    async def send(self, body: bytes, secret: str = SECRET, path: str = PATH, **options):
        headers = sign_webhook(body, [secret], **options)
        return await self.gateway.client.post(path, content=body, headers=headers)

    async def waits(self) -> bool:
        response = await self.gateway.client.get(f"/api/pending/{self.call_id}", headers=bearer("ada"))
        return response.status_code == 200

    async def audit(self, kind: str = "refused") -> list:
        store = self.gateway.api.gateway.runtime.store
        return [row for row in await store.audit.list(limit=500) if row.kind == kind]


class serve_ada:  # noqa: N801 - used like the function `serve`
    """Serve a gateway on a store, where Ada's call of `pay` waits."""

    def __init__(self, tmp_path, webhook: Webhook = BRIDGE, tool: str = "pay", clock=None, **options) -> None:
        runtime = build_runtime(store=tmp_path / "calls.db", **({} if clock is None else {"clock": clock}))
        self._serving = serve(runtime, auth=bearer_tokens(ADA), webhooks=[webhook], **options)
        self._tool = tool

    async def __aenter__(self) -> AdasGateway:
        gateway = await self._serving.__aenter__()
        arguments = {"amount": 5} if self._tool == "pay" else {}
        call = await gateway.call(self._tool, arguments, token="ada")
        return AdasGateway(gateway, call.json()["call_id"])

    async def __aexit__(self, *error) -> None:
        await self._serving.__aexit__(*error)


async def test_a_signed_answer_lets_the_call_run_as_its_requester_and_names_who_answered(tmp_path):
    rules = [AnswerRule(by=("user:grace",))]
    async with serve_ada(tmp_path, answers=rules) as ada:
        approved = await ada.send(message(ada.call_id, by="grace", arguments={"amount": 4}))
        answers = await ada.audit("answer")

    assert (approved.status_code, approved.json()["data"]) == (200, "ada paid 4")
    assert [row.by for row in answers] == ["grace"]


async def test_calls_are_rejected_and_settled_too(tmp_path):
    async with serve_ada(tmp_path) as ada:
        rejected = await ada.send(message(ada.call_id, "reject", reason="too expensive"))
    async with serve_ada(tmp_path, tool="pick") as ada:
        settled = await ada.send(message(ada.call_id, "settle", result="green"))

    assert "too expensive" in rejected.json()["message"]
    assert settled.json()["data"] == "green"


async def test_the_old_secret_counts_while_it_is_replaced(tmp_path):
    both = Webhook("bridge", (SECRET, OLD_SECRET), people=("*",))
    async with serve_ada(tmp_path, both) as ada:
        approved = await ada.send(message(ada.call_id), OLD_SECRET)

    assert approved.json()["data"] == "ada paid 5"


async def test_a_message_with_a_wrong_signature_is_401_and_changes_nothing(tmp_path):
    async with serve_ada(tmp_path) as ada:
        body = message(ada.call_id)
        headers = sign_webhook(body, [SECRET])
        signature = headers["webhook-signature"]
        changes = [
            {"webhook-signature": signature[:-2] + ("A=" if signature[-2] != "A" else "B=")},
            {"webhook-signature": ""},
            {"webhook-signature": signature.replace("v1,", "v2,")},
            {"webhook-signature": "v1,\xff"},
            {"webhook-id": "msg_other"},
            {"webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)},
            {"webhook-timestamp": "now"},
        ]
        refused = [
            await ada.gateway.client.post(PATH, content=body, headers=_encoded({**headers, **each})) for each in changes
        ]
        missing = [
            await ada.gateway.client.post(PATH, content=body, headers={k: v for k, v in headers.items() if k != name})
            for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        ]
        other_secret = await ada.send(body, new_webhook_secret())
        other_name = await ada.send(body, path="/api/webhooks/nothing/answers")
        with_token = await ada.gateway.client.post(
            PATH, content=body, headers={**bearer("ada"), "content-type": "application/json"}
        )
        audited = await ada.audit()
        still_waits = await ada.waits()

    answers = [*refused, *missing, other_secret, other_name, with_token]
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(401, "unauthorized")}
    assert len({each.text for each in answers}) == 1
    assert len(audited) == len(answers)
    assert {row.detail["code"] for row in audited} == {"unauthorized"}
    assert still_waits


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


@pytest.mark.parametrize("name", ["a%00b", "a%0aCRITICAL forged", "%1b[2J", "\u202ebridge", "x" * 300])
async def test_the_name_of_an_unknown_webhook_is_not_written_anywhere(tmp_path, caplog, name):
    async with serve_ada(tmp_path) as ada:
        refused = await ada.send(message(ada.call_id), path=f"/api/webhooks/{name}/answers")
        audited = await ada.audit()

    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert [row.by for row in audited] == [f"webhook:{UNKNOWN_WEBHOOK}"]
    assert [line for line in caplog.messages if "webhook" in line] == [
        f"A message to webhook {UNKNOWN_WEBHOOK} was refused: There is no such webhook."
    ]


async def test_an_answer_to_a_call_with_a_nul_character_in_its_id_is_audited(tmp_path):
    async with serve_ada(tmp_path) as ada:
        refused = await ada.send(message("call\0id"))
        audited = await ada.audit()

    assert refused.status_code == 404
    assert [(row.call_id, row.by) for row in audited] == [("call\ufffdid", "ada")]


async def test_no_changed_byte_of_a_body_passes(tmp_path):
    async with serve_ada(tmp_path) as ada:
        body = message(ada.call_id)
        headers = sign_webhook(body, [SECRET])
        changed = [body[:index] + bytes([body[index] ^ 1]) + body[index + 1 :] for index in range(len(body))]
        statuses = {
            (await ada.gateway.client.post(PATH, content=each, headers=headers)).status_code for each in changed
        }
        audited = await ada.audit()
        still_waits = await ada.waits()

    assert statuses == {401}
    assert len(audited) <= 2 * MAX_AUDITED_PER_MINUTE  # the minute may have changed
    assert still_waits


@pytest.mark.parametrize(("seconds", "status"), [(-301, 401), (-299, 200), (299, 200), (301, 401)])
async def test_a_message_counts_for_five_minutes_by_the_clock_of_the_gateway(tmp_path, seconds, status):
    clock = ManualClock()
    async with serve_ada(tmp_path, clock=clock) as ada:
        answer = await ada.send(message(ada.call_id), timestamp=clock.time() + seconds)
        waits = await ada.waits()

    assert answer.status_code == status
    assert waits == (status == 401)


async def test_the_same_message_again_is_the_stored_outcome_and_another_under_its_id_409(tmp_path):
    async with serve_ada(tmp_path) as ada:
        first = await ada.send(message(ada.call_id), message_id="msg_1")
        again = await ada.send(message(ada.call_id), message_id="msg_1")
        other = await ada.send(message(ada.call_id, "reject"), message_id="msg_1")
        audited = await ada.audit()

    assert first.json() == again.json()
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert [(row.by, row.detail["code"]) for row in audited] == [("webhook:bridge", "conflict")]


async def test_a_replay_is_refused_after_a_restart_too(tmp_path):
    async with serve_ada(tmp_path) as ada:
        refused = await ada.send(message(ada.call_id, by="mallory"), message_id="msg_1")
    async with serve_ada(tmp_path) as ada:
        replayed = await ada.send(message(ada.call_id), message_id="msg_1")
        waits = await ada.waits()

    assert (refused.status_code, replayed.status_code) == (403, 409)
    assert waits


async def test_many_copies_of_a_message_at_once_run_the_call_once(tmp_path):
    async with serve_ada(tmp_path) as ada:
        body = message(ada.call_id)
        copies = range(MAX_ARRIVING_PER_ADDRESS)  # one more that arrives at the same time may be 429
        answers = await asyncio.gather(*(ada.send(body, message_id="msg_1") for _ in copies))
        outcomes = await ada.audit("outcome")

    assert {each.status_code for each in answers} == {200}
    assert {each.json()["data"] for each in answers} == {"ada paid 5"}
    assert len(outcomes) == 1


async def test_a_webhook_answers_only_in_the_name_of_its_people(tmp_path):
    async with serve_ada(tmp_path) as ada:
        stranger = await ada.send(message(ada.call_id, by="mallory"))
        audited = await ada.audit()
        waits = await ada.waits()
    async with serve_ada(tmp_path, Webhook("bridge", (SECRET,))) as ada:
        announces_only = await ada.send(message(ada.call_id))

    assert (stranger.status_code, announces_only.status_code) == (403, 403)
    assert [(row.by, row.detail["code"]) for row in audited] == [("webhook:bridge", "denied")]
    assert waits


async def test_what_the_person_may_not_answer_is_404_or_403_like_an_unknown_call(tmp_path):
    """Grace may neither see nor answer Ada's call, and Ada may see but not answer what a rule leaves to others."""
    async with serve_ada(tmp_path) as ada:
        hidden = await ada.send(message(ada.call_id, by="grace"))
        unknown = await ada.send(message("nothing", by="grace"))
        hidden_audited = await ada.audit()
        waits = await ada.waits()
    async with serve_ada(tmp_path, answers=[AnswerRule(by=("scope:treasurer",))]) as ada:
        denied = await ada.send(message(ada.call_id, by="ada"))

    assert (hidden.status_code, unknown.status_code, denied.status_code) == (404, 404, 403)
    assert len(hidden_audited) == 2
    assert {row.by for row in hidden_audited} == {"grace"}
    assert waits


async def test_the_people_of_a_webhook_have_the_scopes_that_it_gives_them(tmp_path):
    treasurers = Webhook("bridge", (SECRET,), people=("grace",), scopes=frozenset({"tools:*", "treasurer"}))
    async with serve_ada(tmp_path, treasurers, answers=[AnswerRule(by=("scope:treasurer",))]) as ada:
        approved = await ada.send(message(ada.call_id, by="grace"))

    assert approved.json()["data"] == "ada paid 5"


async def test_an_answer_to_another_question_or_with_invalid_arguments_leaves_the_call_waiting(tmp_path):
    async with serve_ada(tmp_path) as ada:
        late = await ada.send(json.dumps({**json.loads(message(ada.call_id)), "round": 2}).encode())
        invalid = await ada.send(message(ada.call_id, arguments={"amount": "much"}))
        unknown_field = await ada.send(message(ada.call_id, amount=3))
        malformed = await ada.send(b'{"call_id": ')
        audited = await ada.audit()
        waits = await ada.waits()

    assert (late.status_code, invalid.status_code, unknown_field.status_code) == (409, 422, 422)
    assert malformed.status_code == 400
    assert sorted((row.by, row.detail["code"]) for row in audited) == [
        ("ada", "conflict"), ("ada", "invalid_arguments"),
        ("webhook:bridge", "bad_request"), ("webhook:bridge", "conflict"),
        ("webhook:bridge", "invalid_arguments"), ("webhook:bridge", "invalid_arguments"),
    ]  # fmt: skip
    assert waits


async def test_a_result_that_is_missing_leaves_the_call_waiting_and_null_is_one(tmp_path):
    async with serve_ada(tmp_path, tool="pick") as ada:
        missing = await ada.send(message(ada.call_id, "settle"))
        waits = await ada.waits()
        taken = await ada.send(message(ada.call_id, "settle", result=None))

    assert (missing.status_code, waits) == (422, True)
    assert (taken.status_code, taken.json()["data"]) == (200, None)


async def test_a_large_body_is_refused_before_it_is_read(tmp_path):
    async with serve_ada(tmp_path) as ada:
        answer = await ada.send(b" " * (2 << 20))

    assert answer.status_code == 413


async def test_messages_that_never_end_take_no_places_of_others(tmp_path):
    limits = GatewayLimits(requests=4, requests_per_identity=4)
    unsigned = {**sign_webhook(b"", [SECRET]), "content-type": "application/json"}
    async with serve_ada(tmp_path, limits=limits) as ada:
        ended = asyncio.Event()

        async def endless_body():
            yield b"{"
            await ended.wait()
            yield b"}"

        client = ada.gateway.client
        arriving = [
            asyncio.ensure_future(client.post(PATH, content=endless_body(), headers=unsigned)) for _ in range(8)
        ]
        other = [client.post(PATH, content=b"{}", headers=unsigned) for _ in range(4)]
        refused = [(await each).status_code for each in other]
        approved = await ada.send(message(ada.call_id))
        ended.set()
        await asyncio.gather(*arriving)

    assert refused == [401] * 4
    assert approved.status_code == 200


async def test_one_address_sends_a_limited_number_of_messages_at_once():
    gate = asyncio.Event()
    bodies = UnverifiedBodies()

    async def receive():
        await gate.wait()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    def read(address: str):
        return bodies.read({"client": (address, 1)}, receive)

    arriving = [asyncio.ensure_future(read("192.0.2.1")) for _ in range(MAX_ARRIVING_PER_ADDRESS)]
    await asyncio.sleep(0)
    with pytest.raises(Problem, match="are arriving"):
        await read("192.0.2.1")
    gate.set()
    received = [await (await each)() for each in (*arriving, read("192.0.2.2"), read("192.0.2.1"))]

    assert {each["body"] for each in received} == {b"{}"}
