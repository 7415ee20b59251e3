"""`surehand serve` as a person starts it, and as a crash ends it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from surehand.gateway.access.tokens import hash_token
from surehand.gateway.webhooks.signatures import new_webhook_secret, verify_webhook

TOOLS = """
import asyncio
from pathlib import Path

from surehand import tool

@tool(effects={"read"})
async def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    return a + b

@tool(effects={"write"})
async def pay(amount: int) -> str:
    '''Pay an amount.'''
    with Path("payments.txt").open("a") as file:
        file.write(f"{amount}\\n")
    return f"paid {amount}"

@tool(effects={"read"}, timeout="off")
async def wait() -> str:
    '''Wait until the file exists.'''
    Path("started").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "went"
"""
CONFIG = "tools: [shop.py]\nstore: calls.db\n"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "surehand.yaml").write_text(CONFIG)
    return tmp_path


class Server:
    """A running `surehand serve`, with a client for it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.client = httpx2.Client(base_url=url, timeout=30, trust_env=False)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "surehand.cli.main", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        line = process.stderr.readline()
        found = re.search(r"at (http://\S+) until", line)
        assert found, line + process.stderr.read()
        url = re.sub(r"//0\.0\.0\.0:", "//127.0.0.1:", found[1])
        server = Server(process, url)
        with server.client:
            yield server
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_until(is_true, seconds: float = 30.0):
    deadline = time.monotonic() + seconds
    while not (value := is_true()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


def test_the_tools_of_the_configuration_are_served(shop):
    with serving(shop) as server:
        answer = server.client.post("/api/tools/add/call", json={"arguments": {"a": 1, "b": 2}})
        asked = server.client.post("/api/tools/pay/call", json={"arguments": {"amount": 5}})
        metrics = server.client.get("/metrics").text
        code = server.end()

    assert answer.json()["data"] == 3
    assert asked.status_code == 202  # the default policy of a file without one
    assert 'surehand_calls_total{namespace="",status="ok",tool="add"} 1.0' in metrics
    assert code == 0


def test_another_address_needs_a_token(shop):
    command = [sys.executable, "-m", "surehand.cli.main", "serve", "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(command, cwd=shop, capture_output=True, text=True, check=False)
    with serving(shop, "--host", "0.0.0.0", "--token-env", "GATEWAY_TOKEN", GATEWAY_TOKEN="secret") as server:
        public = server.client.get("/healthz")
        anonymous = server.client.get("/api/tools")
        allowed = server.client.get("/api/tools", headers={"authorization": "Bearer secret"})

    assert refused.returncode == 2
    assert "token" in refused.stderr
    assert (public.status_code, anonymous.status_code, allowed.status_code) == (200, 401, 200)


_POST_WAIT = """
import sys, httpx2
headers = {"accept": sys.argv[2], "idempotency-key": "w1"}
print(httpx2.post(sys.argv[1] + "/api/tools/wait/call", json={}, headers=headers, timeout=50, trust_env=False).text)
"""
JSON_OR_EVENTS = pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])


@contextmanager
def calling_wait(shop: Path, server: Server, accept: str) -> Iterator[subprocess.Popen[str]]:
    """A client in a process of its own, whose call runs until the file `go` exists."""
    command = [sys.executable, "-c", _POST_WAIT, str(server.client.base_url), accept]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        try:
            wait_until((shop / "started").exists)
            yield caller
        finally:
            caller.kill()


def outcome_of(answer: str) -> dict[str, Any]:
    """The outcome that a call was answered with, as JSON or in the last of its events."""
    if answer.startswith("{"):
        return json.loads(answer)
    events = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] == "CallEnded"
    return events[-1]["outcome"]


def stop_while_it_runs(shop: Path, server: Server) -> int:
    """Send SIGTERM, and let the tool end once the server has begun to stop."""
    with server.client.stream("GET", "/api/events") as following:
        lines = following.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        list(lines)  # it ends when the server begins to stop
        (shop / "go").touch()
        return server.process.wait(60)


def test_a_change_of_the_configuration_takes_effect_without_a_restart(shop):
    with serving(shop) as server:
        waiting = server.client.post("/api/tools/pay/call", json={"arguments": {"amount": 5}}).json()["call_id"]
        (shop / "surehand.yaml").write_text(CONFIG + "polcy: []\n")
        (shop / "surehand.yaml").write_text(CONFIG + "policy: [{effects: [write], decision: allow}]\n")
        paid = wait_until(lambda: _paid(server))
        approved = server.client.post(f"/api/pending/{waiting}/approve")

    assert paid == "paid 7"
    assert approved.json()["data"] == "paid 5"


@JSON_OR_EVENTS
def test_running_calls_finish_when_the_server_stops(shop, accept):
    with serving(shop) as server, calling_wait(shop, server, accept) as caller:
        code = stop_while_it_runs(shop, server)
        answer, _ = caller.communicate(timeout=60)

    assert outcome_of(answer)["data"] == "went"
    assert code == 0


def test_a_call_whose_client_has_left_finishes_when_the_server_stops(shop):
    with serving(shop) as server:
        with calling_wait(shop, server, "text/event-stream") as caller:
            caller.kill()
        code = stop_while_it_runs(shop, server)
    (shop / "go").unlink()
    with serving(shop) as server:
        remembered = server.client.get("/api/calls/w1").json()

    assert code == 0
    assert remembered["outcome"]["data"] == "went"


@JSON_OR_EVENTS
def test_a_change_of_the_configuration_ends_no_call_that_runs(shop, accept):
    with serving(shop) as server, calling_wait(shop, server, accept) as caller:
        (shop / "surehand.yaml").write_text(CONFIG + "policy: [{effects: [write], decision: allow}]\n")
        wait_until(lambda: _paid(server))  # the new configuration is in force
        is_running = caller.poll() is None
        (shop / "go").touch()
        answer, _ = caller.communicate(timeout=60)

    assert is_running
    assert outcome_of(answer)["data"] == "went"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_change_that_takes_all_tokens_away_is_refused(shop, host):
    tokens = f'gateway: {{tokens: [{{hash: "{hash_token("ada")}", user: ada}}]}}\n'
    config = shop / "surehand.yaml"
    config.write_text(CONFIG + tokens)
    with serving(shop, "--host", host) as server:
        lines = iter(server.process.stderr.readline, "")
        config.write_text(CONFIG)
        refused = next(line for line in lines if "configuration" in line)
        anonymous = server.client.get("/api/tools")
        config.write_text(CONFIG + tokens.replace("{tokens", "{port: 1, tokens"))
        taken = next(line for line in lines if "configuration" in line)
        later = next(line for line in lines if "restart" in line)
        known = server.client.get("/api/tools", headers={"authorization": "Bearer ada"})

    assert "the old one stays in force" in refused
    assert "List a token" in refused
    assert "takes effect" in taken
    assert "{port}" in later
    assert (anonymous.status_code, known.status_code) == (401, 200)


def test_a_wait_is_announced_after_a_kill_that_came_first(shop):
    """The gateway is killed while its announcement is not acknowledged; the next one sends the same message."""
    secret = new_webhook_secret()
    received: list[tuple[str, bytes]] = []

    class Bridge(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.append((verify_webhook(body, headers, [secret]), body))
            self.send_response(500 if len(received) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    bridge = HTTPServer(("127.0.0.1", 0), Bridge)
    thread = threading.Thread(target=bridge.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{bridge.server_port}/"
    webhook = f'gateway: {{public_url: "https://t", webhooks: [{{name: b, url: "{url}", secret_env: BRIDGE_SECRET}}]}}'
    (shop / "surehand.yaml").write_text(f"{CONFIG}{webhook}\n")
    try:
        with serving(shop, BRIDGE_SECRET=secret) as server:
            server.client.post("/api/tools/pay/call", json={"arguments": {"amount": 5}})
            wait_until(lambda: len(received) == 1)
            server.end(signal.SIGKILL)
        with serving(shop, BRIDGE_SECRET=secret):
            wait_until(lambda: len(received) == 2, 60)  # when the lease of the killed process is over
    finally:
        bridge.shutdown()
        thread.join()
        bridge.server_close()

    assert received[0] == received[1]
    assert json.loads(received[0][1])["data"]["url"].startswith("https://t/#/inbox/")


def _paid(server: Server) -> str | None:
    return server.client.post("/api/tools/pay/call", json={"arguments": {"amount": 7}}).json()["data"]


def test_clients_resume_after_a_kill_and_nothing_is_lost_or_doubled(shop):
    with serving(shop) as server:
        ids = [
            server.client.post(
                "/api/tools/pay/call", json={"arguments": {"amount": each}}, headers={"Idempotency-Key": f"k{each}"}
            ).json()["call_id"]
            for each in range(10)
        ]
        for call_id in ids[:5]:
            assert server.client.post(f"/api/pending/{call_id}/approve").json()["status"] == "done"
        server.end(signal.SIGKILL)

    with serving(shop) as server:
        listed = {each["call_id"] for each in server.client.get("/api/pending").json()["items"]}
        for call_id in ids[5:]:
            assert server.client.post(f"/api/pending/{call_id}/approve").json()["status"] == "done"
        ended = _ended_calls(server, set(ids))
        repeated = server.client.post(
            "/api/tools/pay/call", json={"arguments": {"amount": 0}}, headers={"Idempotency-Key": "k0"}
        )

    assert repeated.json()["data"] == "paid 0"
    assert listed == set(ids[5:])
    assert sorted((shop / "payments.txt").read_text().split()) == sorted(map(str, range(10)))
    assert sorted(ended) == sorted(ids)


def _ended_calls(server: Server, wanted: set[str]) -> list[str]:
    """The calls whose end the event stream tells from its beginning, once all of them have been told."""
    ended: list[str] = []
    with server.client.stream("GET", "/api/events", headers={"last-event-id": "0"}) as response:
        for line in response.iter_lines():
            if line.startswith("data:"):
                event = json.loads(line.removeprefix("data:"))
                if event["type"] == "CallEnded" and event["outcome"]["status"] == "done":
                    ended.append(event["call_id"])
            if wanted <= set(ended):
                return [each for each in ended if each in wanted]
    return ended
