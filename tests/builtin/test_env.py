"""Environment variables are read and set only if they are allowed, and secrets never."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from surehand import DefinitionError, Runtime
from surehand.builtin.env import env, is_secret_name, is_secret_value


def environment(**more: str) -> dict[str, str]:
    return {"APP_MODE": "test", "APP_TOKEN": "t0p", "HOME": "/home/ann", **more}


async def call(name: str, arguments: dict[str, Any], allow: Any = "APP_*", **more: str) -> Any:
    async with Runtime(env(allow, environment=environment(**more))) as runtime:
        return await runtime.call(name, arguments)


async def test_an_allowed_variable_is_read_and_set():
    kept = environment()
    async with Runtime(env(["APP_*", "TZ"], environment=kept)) as runtime:
        assert (await runtime.call("get_env", {"key": "APP_MODE"})).data == {"key": "APP_MODE", "value": "test"}
        assert (await runtime.call("get_env", {"key": "APP_NONE"})).data == {"key": "APP_NONE", "value": None}
        changed = await runtime.call("set_env", {"key": "APP_MODE", "value": "live"})
        new = await runtime.call("set_env", {"key": "APP_NEW", "value": ""})

    assert changed.data == {"key": "APP_MODE", "previous": "test", "current": "live"}
    assert new.data == {"key": "APP_NEW", "previous": None, "current": ""}
    assert (kept["APP_MODE"], kept["APP_NEW"]) == ("live", "")


async def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("APP_MODE", "ours")
    async with Runtime(env("APP_MODE")) as runtime:
        assert (await runtime.call("get_env", {"key": "APP_MODE"})).data["value"] == "ours"
        await runtime.call("set_env", {"key": "APP_MODE", "value": "yours"})

    assert os.environ["APP_MODE"] == "yours"


@pytest.mark.parametrize("tool", ["get_env", "set_env"])
async def test_an_error_does_not_reveal_whether_a_variable_exists(tool):
    value = {"value": "x"} if tool == "set_env" else {}
    there = await call(tool, {"key": "HOME", **value})
    not_there = await call(tool, {"key": "NONE", **value})

    assert there.code == not_there.code == "denied"
    assert there.message.replace("HOME", "?") == not_there.message.replace("NONE", "?")


@pytest.mark.parametrize(
    "name",
    ["APP_TOKEN", "APP_KEY", "APP_API_KEY", "APP_SECRET", "APP_PASSWORD", "APP_PASSWD", "APP_PWD", "APP_CREDENTIALS",
     "APP_AUTH", "APP_AUTHORIZATION", "APP_PRIVATE", "APP_COOKIE", "APP_SESSION_ID", "APP_DSN", "APP_DATABASE_URL",
     "APP_REDIS_URL", "APP_ApiKey", "APP_JWT", "APP_PASS", "APP_CONNECTION_STRING", "APP_SIGNING", "APP_PIN"],
)  # fmt: skip
async def test_a_glob_does_not_allow_names_that_look_like_secrets(name):
    for tool, value in (("get_env", {}), ("set_env", {"value": "x"})):
        outcome = await call(tool, {"key": name, **value}, **{name: "hidden"})
        assert outcome.code == "denied"
        assert "hidden" not in outcome.message


@pytest.mark.parametrize("name", ["GIT_AUTHOR_NAME", "KEYBOARD_LAYOUT", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "PWD",
                                  "LANG", "TERM", "APP_MODE", "OPINION", "SPINNER", "PIPELINE", "HOTPLUG"])  # fmt: skip
def test_harmless_names_are_not_taken_for_secrets(name):
    assert not is_secret_name(name)


LETTERS = "a1B2" * 6


@pytest.mark.parametrize(
    "mark",
    ["sk-", "sk-proj-", "sk-ant-", "sk_live_", "ghp_", "github_pat_", "glpat-", "xoxb-", "AIza" + "x" * 9, "hf_",
     "npm_", "SG.", "Bearer ", "Basic ", "password=", "api_key: ", "x-token="],
)  # fmt: skip
async def test_a_value_in_the_form_of_a_key_is_neither_shown_nor_set(mark):
    await refused(mark + LETTERS)


@pytest.mark.parametrize(
    "value",
    ["AKIA" + "Z7" * 8, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "-----BEGIN RSA PRIVATE KEY-----",
     "-----BEGIN PRIVATE KEY-----", "postgres://ann:t0p@db/app", "redis://:t0p@cache", "https://x:y@host/path",
     "https://" + "a1" * 16 + "@errors.example.com/1", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCY" * 2,
     "Server=db;Password=t0psecret;", "host=db password=t0p", "https://api.example.com/?api_key=12345"],
)  # fmt: skip
async def test_a_value_with_a_password_in_it_is_neither_shown_nor_set(value):
    await refused(value)


async def refused(value: str) -> None:
    read = await call("get_env", {"key": "APP_VALUE"}, APP_VALUE=f"prefix {value}")
    overwritten = await call("set_env", {"key": "APP_VALUE", "value": "x"}, APP_VALUE=value)
    written = await call("set_env", {"key": "APP_VALUE", "value": value})

    for outcome in (read, overwritten, written):
        assert outcome.code == "denied"
        assert value not in outcome.message


@pytest.mark.parametrize(
    "value",
    ["https://example.com/a?b=c", "postgres://db/app", "one:two", "user@example.com", "", "2027-03-31T09:00:00",
     "3.14", "C:\\temp", "task-42", "sk", "a" * 9_000, "3f786850e387550fdab836ed7e6dc881de23001b",
     "550e8400-e29b-41d4-a716-446655440000", "/usr/local/lib/Python3/site-packages/surehand"],
)  # fmt: skip
def test_plain_values_are_not_taken_for_secrets(value):
    assert not is_secret_value(value)


@pytest.mark.parametrize(
    "part",
    ["eyJ-", "sk-", "aB", "aB1 ", "aB:", "a-", "://:", "password ", "-----BEGIN ", "bearer ", "x=", "eyJaaaaaaaa."],
)
def test_checking_a_value_for_secrets_is_fast(part):
    began = time.thread_time()
    is_secret_value(part * (30_000 // len(part)))

    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    "name",
    ["PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "IFS", "BASH_ENV", "ENV", "https_proxy",
     "GIT_SSH_COMMAND", "SSL_CERT_FILE", "HOME", "PS4", "EDITOR", "AGENT_WORKSPACE_ROOT", "DYLD_INSERT_LIBRARIES",
     "PERL5OPT"],
)  # fmt: skip
async def test_dangerous_variables_are_set_only_if_allowed_by_exact_name(name):
    by_glob = await call("set_env", {"key": name, "value": "x"}, allow="*")
    by_name = await call("set_env", {"key": name, "value": "x"}, allow=[name])
    read = await call("get_env", {"key": name}, allow="*")

    assert by_glob.code == "denied"
    assert by_name.ok
    assert read.ok


@pytest.mark.parametrize("key", ["", "A=B", "APP_\n", "APP_ A", "APP_\0", "app_mode", "APP_MODÉ", "APP_" + "A" * 300])
async def test_an_invalid_variable_name_is_refused(key):
    assert (await call("get_env", {"key": key})).code in ("denied", "invalid_arguments")
    assert (await call("set_env", {"key": key, "value": "x"})).code in ("denied", "invalid_arguments")


async def test_a_value_with_a_nul_is_refused():
    assert (await call("set_env", {"key": "APP_MODE", "value": "a\0b"})).code == "invalid_arguments"


async def test_a_value_that_is_not_utf8_is_shown_with_replacement_characters():
    assert (await call("get_env", {"key": "APP_RAW"}, APP_RAW="a\udcffb")).data["value"] == "a\ufffdb"


@pytest.mark.parametrize("allow", [["APP_TOKEN"], ["DATABASE_URL"], ["A B"], [""], [1], "OPENAI_API_KEY"])
def test_an_invalid_allow_list_is_a_definition_error(allow):
    with pytest.raises(DefinitionError):
        env(allow)


async def test_an_empty_allow_list_refuses_every_variable():
    for tool, value in (("get_env", {}), ("set_env", {"value": "x"})):
        outcome = await call(tool, {"key": "APP_MODE", **value}, allow=())
        assert outcome.code == "denied"
        assert outcome.message.endswith("allowed here: none.")
