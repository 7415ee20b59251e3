"""Secrets of a server's configuration in what the server says: they reach no model, no log and no file."""

from __future__ import annotations

import base64
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime, mcp
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from tests.providers.mcp.peers import FOLDER, friendly_http_server
from tests.providers.mcp.steady_server import SteadyServer

SECRET = "sk'9/Zq+Wv Lm2\"Kx=7&Tä"
FRAGMENT = SECRET[2:9]
PLACES = (
    "text", "structured content", "metadata", "resource", "image", "error result", "error", "progress", "log",
    "question", "description", "schema", "instructions", "prompt", "version", "malformed message", "exit", "start",
)  # fmt: skip
ENCODINGS = (
    "plain", "base64", "base64 after one byte", "base64 after two bytes", "base64 in lines", "URL-safe base64", "basic",
    "URL", "form", "hex", "HEX", "JSON", "repr", "two lines", "a frame", "colours",
)  # fmt: skip


async def everything_told(place: str, encoding: str, folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """All that a model, a person, the log and the disk get to see of a server that tells its secret."""
    caplog.set_level(logging.DEBUG)
    server = mcp.stdio(
        sys.executable, "-S", str(FOLDER / "leaking_server.py"), place, encoding, namespace="leaking",
        env={"API_TOKEN": SECRET}, manifest=folder / "manifests", lock=folder / "surehand.lock", start_timeout=20,
    )  # fmt: skip
    seen: list[Any] = []
    async with Runtime(server, store=folder / "calls.db") as runtime:
        runtime.listen(seen.append)
        outcome = await runtime.call("leaking__tell", {"x": "hello"})
        seen += [outcome, outcome.text, runtime.describe("anthropic"), runtime.instructions()]
        seen += await runtime.pending()
        seen.append(await server.check())
    files = [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    return "\n".join([*map(repr, seen), *map(str, seen), caplog.text, *files])


def spellings() -> list[str]:
    raw = SECRET.encode()
    aligned = [base64.b64encode(raw).decode()[4:-8]]
    aligned += [base64.b64encode(b"a" * offset + raw).decode()[4:-8] for offset in (1, 2)]
    encoded = [text.replace("+", "-").replace("/", "_") for text in aligned]
    return [FRAGMENT, *aligned, *encoded, "9%2FZq", raw[2:14].hex(), "Kx=7"]


@pytest.mark.parametrize("place", PLACES)
async def test_a_secret_of_env_reaches_nobody_wherever_the_server_tells_it(place, tmp_path, caplog):
    told = await everything_told(place, "plain", tmp_path, caplog)

    assert [spelling for spelling in spellings() if spelling.lower() in told.lower()] == []
    assert "redacted" in told or "characters that are no base64" in told


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("place", ["exit", "text"])
async def test_a_secret_of_env_is_masked_in_every_encoding(place, encoding, tmp_path, caplog):
    told = await everything_told(place, encoding, tmp_path, caplog)

    assert [spelling for spelling in spellings() if spelling.lower() in told.lower()] == []
    assert "[redacted]" in told


async def test_a_token_in_headers_is_masked_in_results(tmp_path):
    token = "abcd-1234-efgh-5678"
    async with friendly_http_server("streamable-http") as port:
        server = mcp.http(
            f"http://127.0.0.1:{port}/mcp",
            namespace="web",
            headers={"Authorization": f"Bearer {token}"},
            manifest=False,
        )
        async with Runtime(server) as runtime:
            outcome = await runtime.call("web__echo", {"text": f"you sent {token}"})

    assert outcome.text == "you sent [redacted]"


async def test_values_of_env_that_are_no_secrets_are_shown(server: SteadyServer):
    env = {"PROJECT": "alpha-7-release", "ROOT": "/srv/data/project", "MODE": "production", "TOKEN": "short"}
    async with Runtime(server.provider(env=env)) as runtime:
        seen = [(await runtime.call("steady__environment", {"name": name})).data for name in env]

    assert seen == list(env.values())


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("GITHUB_TOKEN", "abc123def", "abc123def"),
        ("PASSWORD", "hunter", "hunter"),
        ("X-Api-Key", "0123456789", "0123456789"),
        ("MAIL", "ghp_0123456789abcdef", "ghp_0123456789abcdef"),
        ("authorization", "Basic c29tZW9uZTpodW50ZXIyMg==", "hunter22"),
        ("authorization", "Bearer abcdefgh", "abcdefgh"),
        ("DATABASE_URL", "postgresql://me:hunter22@db/x", "hunter22"),
        ("DATABASE_URL", "postgresql://me:hunter%2F22@db/x", "hunter/22"),
        ("HOOK", "https://example.org/?api_key=hunter22&x=1", "hunter22"),
        ("SIGNING_KEY", "-----BEGIN KEY-----\nabcdefghijkl\nmnopqrstuvwx\n-----END KEY-----", "mnopqrstuvwx"),
    ],
)
def test_what_is_secret_by_its_name_or_form_is_masked_in_messages(name, value, hidden):
    secrets = ConnectionSecrets()
    secrets.add({name: value})

    assert secrets.redact_message({"a": [f"x {hidden} y"]}) == {"a": ["x [redacted] y"]}
    assert hidden not in secrets.redact(f"x {value} y")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKEN", "short"), ("KEY_FILE", "/home/me/.ssh/id_key"), ("MODE", "development"), ("SIZE", "1234567890"),
        ("AWS_REGION", "eu-central-1"), ("API_URL", "https://example.org/api"), ("User-Agent", "agent/1.0 (x)"),
    ],
)  # fmt: skip
def test_what_is_no_secret_is_left_alone(name, value):
    secrets = ConnectionSecrets()
    secrets.add({name: value})

    assert secrets.redact(f"x {value} y") == f"x {value} y"
    assert secrets.redact_message(value) == value


def test_a_value_that_may_be_secret_is_masked_in_reports_only():
    secrets = ConnectionSecrets()
    secrets.add({"WORD": "open-sesame"})

    assert secrets.redact("the word is open-sesame") == "the word is [redacted]"
    assert secrets.redact_message("the word is open-sesame") == "the word is open-sesame"


def test_secrets_among_the_words_of_a_command_are_masked():
    secrets = ConnectionSecrets()
    secrets.add_command(["server", "--token", "hunter22", "--api-key=hunter33", "--port", "8080"])

    assert secrets.redact("hunter22 hunter33 8080") == "[redacted] [redacted] 8080"
