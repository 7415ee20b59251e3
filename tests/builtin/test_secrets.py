"""No result, error, log or event contains a secret of the environment, in any common encoding."""

import base64
import binascii
import html
import json
import logging
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from surehand import Runtime, clock, data, env, files, memory, shell, todo, web
from surehand.builtin.agent.memories import memories
from surehand.builtin.agent.tasks import sessions, tasks
from surehand.builtin.web.search_engines import tavily
from tests.http.server import only_loopback, reply, serving
from tests.requirements import needs

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

SECRET = "sk-canary/9\"é&<Zq4+x8%Wv2='Lm7"
NAME = "TAVILY_API_KEY"


def forms(secret: str) -> set[str]:
    """The secret in plain form and in common encodings."""
    raw = secret.encode()
    basic = base64.b64encode(b"user:" + raw).decode()
    shifted = {base64.b64encode(b"\0" * shift + raw).decode()[4:-4] for shift in range(3)}  # inside a longer text
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        html.escape(secret),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        binascii.hexlify(raw).decode(),
        binascii.hexlify(raw).decode().upper(),
        raw.decode("latin-1"),
        secret[::-1],
        basic[8:-4],
        base64.urlsafe_b64encode(raw).decode()[:-4],
        *shifted,
    }


def found_in(text: str) -> list[str]:
    return sorted(form for form in forms(SECRET) if form in text)


@pytest.fixture(autouse=True)
def _place_secret(monkeypatch):
    only_loopback(monkeypatch)
    for name in (NAME, "MY_TOKEN", "HTTP_PROXY_PASSWORD"):
        monkeypatch.setenv(name, SECRET)


def attempts(port: int) -> list[tuple[str, dict[str, object]]]:
    """Calls with which a model could try to read the secret."""
    echo = f"http://127.0.0.1:{port}/echo?x=${{{NAME}}}&y=$MY_TOKEN"
    paths = ["/proc/self/environ", "proc/environ", ".env", "~/.bashrc", f"${{{NAME}}}", f"$({NAME})", "%MY_TOKEN%"]
    return [
        *(("read", {"file_path": path}) for path in paths),
        *(("grep", {"pattern": "canary", "path": path}) for path in ("/proc/self", ".", "..")),
        ("glob", {"pattern": "/proc/*/environ"}),
        ("write", {"file_path": "a.txt", "content": f"${{{NAME}}} $MY_TOKEN"}),
        ("read_file", {"path": "a.txt"}),
        ("get_env", {"key": NAME}),
        ("get_env", {"key": "MY_TOKEN"}),
        ("set_env", {"key": NAME, "value": "x"}),
        ("get_env", {"key": "SAFE"}),
        ("http_get", {"url": echo}),
        ("http_post", {"url": echo, "body": {"key": f"${{{NAME}}}"}, "headers": {"X-Key": "$MY_TOKEN"}}),
        ("webfetch", {"url": echo}),
        ("web_search", {"query": "refused"}),
        ("web_search", {"query": "strange"}),
        ("web_search", {"query": "fine"}),
        ("json_parse", {"text": f'"${{{NAME}}}"'}),
        ("json_stringify", {"data": f"${{{NAME}}}"}),
        ("base64_encode", {"text": "$MY_TOKEN"}),
        ("memory_write", {"path": "facts/a.md", "content": "$MY_TOKEN"}),
        ("memory_read", {"path": "/proc/self/environ"}),
        ("todowrite", {"todos": [{"content": "$MY_TOKEN", "status": "pending"}]}),
        ("current_time", {"timezone": "../../proc/self/environ"}),
        ("task_replay", {"taskId": "../../../proc/self/environ"}),
        ("session_archive_read", {"file": "../../../../proc/self/environ"}),
        ("set_memories", {"memories": [{"key": "k", "value": "$MY_TOKEN"}]}),
        ("get_memories", {}),
    ]


COMMANDS = [
    "env; export -p; set",
    "cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline",
    "strings -a /proc/1/environ; strings -a /proc/self/maps; ls -la /proc/*/fd",
    f"echo ${{{NAME}}} $MY_TOKEN | base64; printenv {NAME} | xxd -p",
    "env | gzip | base64; env | od -c",
    f"false ${NAME}",
]


def answer(asked):
    """Echo the request, as a hostile server would."""
    if asked.path.startswith("/search"):
        wanted = json.loads(asked.body)["query"]
        told = json.dumps({"error": f"bad key {asked.headers['authorization']}", "results": []})
        status = 401 if wanted == "refused" else 200
        return reply("<html>" + told if wanted == "strange" else told, status, content_type="application/json")
    return reply(asked.raw + asked.body, content_type="text/plain")


async def outputs_of(runtime: Runtime, calls) -> str:
    """Everything that these calls return or report."""
    heard = list[str]()
    runtime.listen(lambda event: heard.append(repr(event)))
    for name, arguments in calls:
        outcome = await runtime.call(name, arguments)
        heard += [outcome.text, repr(outcome), repr(outcome.data), repr(getattr(outcome, "metadata", None))]
    heard.append(json.dumps([runtime.describe(), runtime.instructions()], default=str))
    return "\n".join(heard)


def stored_text(folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """The contents of the disk and of the log."""
    left = [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
    return "\n".join([caplog.text, *(repr(record.args) for record in caplog.records), *left])


async def test_no_tool_reveals_a_secret_of_the_environment(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SAFE", "yes")
    (tmp_path / "work").mkdir()
    async with serving(answer) as server:
        search = tavily(endpoint=f"http://127.0.0.1:{server.port}/search", allow_private=True)
        reach = web(search=search, allow_private=["127.0.0.1"], ports=[server.port])
        families = (files(tmp_path / "work", names="both"), reach, data(), clock(), env(allow=["SAFE", "MY_*"]), todo())
        more = (memory(tmp_path / "memory"), tasks(tmp_path / "tasks"), sessions(tmp_path / "sessions"))
        async with Runtime(*families, *more, memories(), store=str(tmp_path / "calls.db")) as runtime:
            told = await outputs_of(runtime, attempts(server.port))

        assert "yes" in told
        assert len([asked for asked in server.asked if asked.path.startswith("/search")]) == 3  # the key was used
        assert all(found_in(asked.raw.decode("latin-1")) == [] for asked in server.asked if "echo" in asked.path)
    assert found_in(told) == []
    assert found_in(stored_text(tmp_path, caplog)) == []


@needs("bubblewrap")
async def test_no_command_sees_a_secret_of_the_environment(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)

    async with Runtime(shell(tmp_path)) as runtime:
        told = await outputs_of(runtime, [("bash", {"command": command}) for command in COMMANDS])

    assert "PATH=" in told
    assert found_in(told + stored_text(tmp_path, caplog)) == []


@pytest.mark.parametrize("form", sorted(forms(SECRET)))
def test_the_check_finds_a_secret_that_is_there(form):
    assert found_in(f"before {form} after")
