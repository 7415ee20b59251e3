"""A REST call that waits for approval, and is answered by another process that has the same tool."""

import asyncio
import json

from surehand import Pending, Policy, Runtime, rest
from tests.http.server import reply, serving


def transfer(url: str):
    """Each process defines the tool for itself."""
    return rest(
        "POST",
        f"{url}/accounts/{{account}}/transfers",
        name="transfer",
        description="Transfer money.",
        parameters={
            "type": "object",
            "properties": {"account": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["account", "amount"],
        },
        auth={"api_key": "${env.BANK_KEY}", "header": "X-Key"},
        environment={"BANK_KEY": "k3y-of-the-bank"},
    )


async def test_the_request_that_was_approved_is_sent_once_by_whoever_takes_it_up(tmp_path):
    store = str(tmp_path / "calls.db")
    body = json.dumps({"id": 7, "status": "booked"})
    async with serving(lambda asked: reply(body, 201, "Created", content_type="application/json")) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with Runtime(transfer(url), store=store, policy=Policy.default()) as asking:
            waits = await asking.call("transfer", {"account": "DE/12", "amount": 5}, call_id="t-1")
        assert isinstance(waits, Pending)
        assert server.asked == []

        async with Runtime(transfer(url), store=store, policy=Policy.default()) as answering:
            [pending] = await answering.pending()
            outcomes = await asyncio.gather(*(answering.approve("t-1", by="ada") for _ in range(5)))
            again = await answering.call("transfer", {"account": "DE/12", "amount": 5}, call_id="t-1")

    [asked] = server.asked
    assert pending.request["preview"].startswith(f"POST {url}/accounts/DE%2F12/transfers\n")
    assert (asked.path, asked.body) == ("/accounts/DE%2F12/transfers", b'{"amount":5}')
    assert (asked.headers["idempotency-key"], asked.headers["x-key"]) == ("t-1", "k3y-of-the-bank")
    assert [outcome.data for outcome in (*outcomes, again)] == [{"id": 7, "status": "booked"}] * 6
