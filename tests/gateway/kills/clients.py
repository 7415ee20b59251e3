"""Clients that outlive the gateway: they try again until they have an answer, and read events on where they stopped."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2

RETRY_SECONDS = 0.05
CATCH_UP_SECONDS = 15.0
"""A gateway adds the events that a killed one did not write a few seconds after its start."""


@dataclass
class Acknowledged:
    """What clients were told, by the effect of the call."""

    done: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    """Calls that ran when the gateway was killed: whether they had their effect is for a person to find out."""
    call_ids: dict[str, str] = field(default_factory=dict)
    open_waits: dict[str, str] = field(default_factory=dict)
    """Calls that are left waiting until the gateway has been killed: their ids by their effects."""

    def add(self, effect: str, answer: dict[str, Any]) -> None:
        """Note how a call has ended."""
        if answer["status"] == "done":
            assert answer["data"] == int(effect.split()[1])
            self.done.add(effect)
        else:
            self.uncertain.add(effect)


async def post_until_answered(client: httpx2.AsyncClient, path: str, body: Any, key: str = "") -> dict[str, Any]:
    """The answer to a request that is sent again whenever the gateway dies under it."""
    headers = {"Idempotency-Key": key} if key else {}
    while True:
        try:
            response = await client.post(path, json=body, headers=headers)
            if response.status_code not in (429, 503):
                assert response.status_code < 500, response.text
                return dict(response.json())
        except httpx2.TransportError:
            pass
        await asyncio.sleep(RETRY_SECONDS)


async def approve(client: httpx2.AsyncClient, call_id: str) -> dict[str, Any]:
    """Approve a call that waits."""
    return await post_until_answered(client, f"/api/pending/{call_id}/approve", {})


async def answer_open_waits(client: httpx2.AsyncClient, log: Acknowledged) -> None:
    """Approve the calls that have been left waiting."""
    waits, log.open_waits = log.open_waits, {}
    for effect, call_id in waits.items():
        log.add(effect, await approve(client, call_id))


async def keep_calling(client: httpx2.AsyncClient, numbers: Any, stop: asyncio.Event, log: Acknowledged) -> None:
    """Make calls one after the other, each with a key of its own; every third one waits for an approval.

    Every second one of these is left waiting, and is answered after a kill.
    """
    while not stop.is_set():
        number = next(numbers)
        tool = "pay" if number % 3 == 0 else "work"
        effect = f"{tool} {number}"
        path = f"/api/tools/{tool}/call"
        answer = await post_until_answered(client, path, {"arguments": {"number": number}}, effect.replace(" ", "-"))
        log.call_ids[effect] = call_id = answer["call_id"]
        if answer.get("waiting_for") == "approval":
            if number % 2 == 0:
                log.open_waits[effect] = call_id
                continue
            answer = await approve(client, call_id)
        log.add(effect, answer)


class Follower:
    """Reads an event stream for as long as it is asked to, over all restarts of the gateway."""

    def __init__(self, client: httpx2.AsyncClient, last_id: str | None = None, path: str = "/api/events") -> None:
        self._client = client
        self._path = path
        self.last_id = last_id
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.connections = 0
        self.missed = 0

    async def follow(self) -> None:
        """Read until the task is cancelled."""
        while True:
            with suppress(httpx2.TransportError):
                await self._read_stream()
            await asyncio.sleep(RETRY_SECONDS)

    async def follow_to_end(self) -> None:
        """Read until the gateway has ended the stream after an event that ends a call."""
        while not self.ended_calls:
            with suppress(httpx2.TransportError):
                await self._read_stream()
            if not self.ended_calls:
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_stream(self) -> None:
        headers = {} if self.last_id is None else {"Last-Event-ID": self.last_id}
        async with self._client.stream("GET", self._path, headers=headers, timeout=None) as response:
            if response.status_code != 200:
                return
            self.connections += 1
            event_id, data = "", ""
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    event_id = value
                elif name == "data":
                    data = value
                elif not line and data:
                    self._take(event_id, json.loads(data))
                    event_id, data = "", ""

    def _take(self, event_id: str, fields: dict[str, Any]) -> None:
        if fields["type"] == "Missed":
            self.missed += fields["count"] or 1
            return
        self.last_id = event_id or self.last_id  # the last event of a call may be told again, without an id
        self.events.append((event_id, fields))

    @property
    def ended_calls(self) -> Counter[str]:
        """How often each call was told to have ended as done."""
        return Counter(
            fields["call_id"]
            for _, fields in self.events
            if fields["type"] == "CallEnded" and fields["outcome"]["status"] == "done"
        )

    async def wait_for(self, call_ids: set[str]) -> None:
        """Wait until the end of all of these calls was read, or until it is too late for them."""
        for _ in range(round(CATCH_UP_SECONDS / RETRY_SECONDS)):
            if not call_ids - set(self.ended_calls):
                return
            await asyncio.sleep(RETRY_SECONDS)
