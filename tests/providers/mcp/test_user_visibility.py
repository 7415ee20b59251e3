"""Servers that list tools only for users: visibility of tools and instructions between users."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server.auth.provider import AccessToken

from surehand import Done, Failed, Runtime, Unavailable, filtered, mcp
from surehand.http.settings import HttpSettings
from surehand.providers.mcp import Server
from surehand.providers.mcp.addresses.http import HttpAddress
from surehand.providers.mcp.auth.login import log_in
from surehand.providers.mcp.connection import backoff
from tests.http.server import only_loopback
from tests.providers.mcp.oauth_server import OAuthServer, follow_redirects, run_oauth_server
from tests.providers.mcp.steady_server import SteadyServer, replace_file, tool_definition, wait_until

FICKLE = Path(__file__).parent / "peers" / "changing_server.py"
HERE = HttpSettings(allow_private=["127.0.0.1"])
TOKENS = {"anna": "token-of-anna", "ben": "token-of-ben", "eve": "token-of-nobody"}


@pytest.fixture(scope="module")
def servers() -> Iterator[OAuthServer]:
    with run_oauth_server() as authority:
        yield authority


@pytest.fixture
def authority(servers: OAuthServer, monkeypatch: pytest.MonkeyPatch) -> OAuthServer:
    """A real server over HTTP that wants a token of each user."""
    only_loopback(monkeypatch)
    servers.reset()
    for user in ("anna", "ben"):
        token = AccessToken(token=TOKENS[user], client_id="test", scopes=["tools"], subject=user)
        servers.access_tokens[TOKENS[user]] = token
    return servers


def headers(who: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[who.user]}"}


def guarded(authority: OAuthServer, **given: Any) -> Server:
    return mcp.http(authority.url, **{"namespace": "desk", "settings": HERE, "headers": headers, **given})


def names(scope: Any) -> list[str]:
    return [entry["name"] for entry in scope.describe("mcp")]


# Calls


async def test_a_users_first_call_lists_the_tools_for_that_user_and_is_made(authority: OAuthServer) -> None:
    async with Runtime(guarded(authority)) as runtime:
        before = names(runtime)
        anna, ben = runtime.scope(user="anna"), runtime.scope(user="ben")
        outcomes = [await anna.call("desk__whoami"), await ben.call("desk__whoami")]
        after = names(anna)

    assert before == []
    assert [outcome.unwrap() for outcome in outcomes] == [{"result": "anna"}, {"result": "ben"}]
    assert after == ["desk__whoami", "desk__meet"]


async def test_concurrent_first_calls_are_all_made(authority: OAuthServer) -> None:
    async with Runtime(guarded(authority)) as runtime:
        scopes = [runtime.scope(user=user) for user in ("anna", "ben") * 4]
        outcomes = await asyncio.gather(*(scope.call("desk__whoami") for scope in scopes))
    assert [outcome.unwrap()["result"] for outcome in outcomes] == ["anna", "ben"] * 4


@pytest.mark.parametrize("given", [{}, {"headers": None}])
async def test_a_server_that_waits_for_a_user_is_reported_so(
    authority: OAuthServer, caplog: pytest.LogCaptureFixture, given: Any
) -> None:
    async with Runtime(guarded(authority, **given)) as runtime:
        outcome, instructions = await runtime.call("desk__whoami"), runtime.instructions()

    assert isinstance(outcome, Failed)
    assert outcome.code == "unavailable"
    for text in (outcome.message, instructions, caplog.text):
        assert "waits for a user to sign in: " in text


async def test_a_refused_user_gets_the_reason_and_another_is_served(authority: OAuthServer) -> None:
    async with Runtime(guarded(authority)) as runtime:
        eve, kim = [await runtime.scope(user=user).call("desk__whoami") for user in ("eve", "kim")]
        anna = await runtime.scope(user="anna").call("desk__whoami")

    assert isinstance(eve, Failed)
    assert eve.code == "unavailable"
    assert "is not connected: 127.0.0.1: It asks for a login (401)" in eve.message
    assert "KeyError: 'kim'" in kim.text
    assert anna.ok


async def test_a_users_tools_can_be_loaded_before_the_first_call(authority: OAuthServer) -> None:
    async with Runtime(guarded(authority)) as runtime:
        anna, eve = runtime.scope(user="anna"), runtime.scope(user="eve")
        await anna.refresh("desk")
        with pytest.raises(Unavailable, match="401"):
            await eve.refresh("desk")
        assert names(anna) == ["desk__whoami", "desk__meet"]
        assert "desk" not in anna.instructions()


async def test_tools_of_a_filtered_server_are_loaded_too(authority: OAuthServer) -> None:
    async with Runtime(filtered(guarded(authority), "who*")) as runtime:
        assert (await runtime.scope(user="anna").call("desk__whoami")).ok
        assert names(runtime.scope(user="anna")) == ["desk__whoami"]
        assert names(runtime.scope(user="ben")) == []


async def test_a_shared_connection_waits_for_no_user(authority: OAuthServer) -> None:
    async with Runtime(guarded(authority, per="everyone")) as runtime:
        outcome = await runtime.scope(user="anna").call("desk__whoami")
    assert isinstance(outcome, Failed)
    assert "waits for a user" not in outcome.message


async def test_a_user_signed_in_by_browser_is_served_while_anonymous_calls_are_refused(
    authority: OAuthServer, tmp_path: Path
) -> None:
    person = mcp.oauth(tokens=tmp_path / "tokens", open=follow_redirects, interactive=True)
    await log_in(person, HttpAddress(authority.url, settings=HERE), "ada")
    auth = mcp.oauth(tokens=tmp_path / "tokens", interactive=False)

    async with Runtime(guarded(authority, headers=None, auth=auth)) as runtime:
        instructions = runtime.instructions()
        ada = await runtime.scope(user="ada").call("desk__whoami")
        bob = await runtime.scope(user="bob").call("desk__whoami")
        shown = [names(runtime.scope(user=user)) for user in ("ada", "bob")]

    assert "waits for a user to sign in: Nobody is signed in" in instructions
    assert ada.unwrap() == {"result": "ada"}
    assert isinstance(bob, Failed)
    assert bob.code == "unavailable"
    assert "surehand login" in bob.message
    assert "--user bob" in bob.message
    assert shown == [["desk__whoami", "desk__meet"], []]


# What is whose


def variables(who: Any) -> dict[str, str]:
    return {"TOKEN": TOKENS[who.user]}


async def test_tools_of_the_first_user_are_hidden_from_users_with_other_tools(server: SteadyServer) -> None:
    server.set_tools(tool_definition("pid"), tool_definition("effect", "For Anna."), tool_definition("secret_of_anna"))
    async with Runtime(server.provider(env=variables)) as runtime:
        anna, ben = runtime.scope(user="anna"), runtime.scope(user="ben")
        await anna.call("steady__pid")
        unasked = names(ben), ben.instructions()
        server.set_tools(tool_definition("pid"), tool_definition("effect", "For Ben."))
        assert (await ben.call("steady__pid")).ok

        assert names(anna) == ["steady__pid", "steady__effect", "steady__secret_of_anna"]
        assert names(ben) == ["steady__pid"]
        assert names(runtime) == []
        assert "Be steady." in anna.instructions()
        assert "Be steady." in ben.instructions()  # to whom the server has said the same
        assert "Be steady." not in runtime.instructions()
        assert "secret_of_anna" not in (await ben.call("steady__secret_of_ann")).text
    assert unasked[0] == []
    assert "Be steady." not in unasked[1]


async def test_a_later_anonymous_list_is_shown_to_everybody(
    server: SteadyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_DELAYS_SECONDS", (0.0, 30.0))
    tokens = dict(TOKENS)
    server.set_tools(tool_definition("pid"), tool_definition("secret_of_anna"))
    async with Runtime(server.provider(env=lambda who: {"TOKEN": tokens[who.user]})) as runtime:
        await runtime.scope(user="anna").call("steady__pid")
        tokens[None] = "of the program"  # type: ignore[index]
        server.set_tools(tool_definition("pid"))
        await runtime.refresh()
        assert [names(runtime.scope(user=user)) for user in (None, "anna", "ben")] == [["steady__pid"]] * 3


def server_with_lists_per_user(folder: Path, lists: dict[str, Any], **options: Any) -> Server:
    """A server that lists other tools for each user, and none anonymously."""
    for user, tools in lists.items():
        replace_file(folder / user, json.dumps({"tools": tools, "instructions": f"For {user}."}))
    command = ("sh", "-c", 'exec "$0" -I -S "$1" "$STATE"', sys.executable, str(FICKLE))
    given = {"namespace": "apart", "manifest": False, **options}
    return mcp.stdio(*command, env=lambda who: {"STATE": str(folder / who.user)}, **given)


async def test_of_two_concurrent_first_users_only_one_sets_the_tools(tmp_path: Path) -> None:
    many = [tool_definition(f"tool_{n}") for n in range(1_000)]  # so that the second is there before the first is taken
    server = server_with_lists_per_user(
        tmp_path, {"anna": [*many, tool_definition("of_anna")], "ben": [*many, tool_definition("of_ben")]}
    )
    async with Runtime(server) as runtime:
        users = [runtime.scope(user=user) for user in ("anna", "ben")]
        await asyncio.gather(*(user.load_user_tools() for user in users))
        instructions = [user.instructions() for user in users]
        own = [name for user in users for name in names(user) if "of_" in name]
    assert sorted(instructions) in (["", "## apart\nFor anna."], ["", "## apart\nFor ben."])  # and nothing is held back
    assert len(own) == 1


async def test_a_user_with_other_tools_is_served_in_a_pool_of_one_connection(tmp_path: Path) -> None:
    lists = {user: [tool_definition("find", f"For {user}.")] for user in ("anna", "ben")}
    async with Runtime(server_with_lists_per_user(tmp_path, lists, sessions=1)) as runtime:
        for user in lists:
            assert (await runtime.scope(user=user).call("apart__find")).unwrap() == "done"


async def test_a_users_next_session_sees_the_tools_listed_for_it(tmp_path: Path) -> None:
    server = server_with_lists_per_user(tmp_path, {"anna": [tool_definition("old")]}, per="session")
    async with Runtime(server) as runtime:
        first, second = (runtime.scope(user="anna", session=session) for session in "12")
        await first.load_user_tools()
        server_with_lists_per_user(tmp_path, {"anna": [tool_definition("new")]})
        await second.refresh()
        assert names(second) == ["apart__new"]
        assert (await second.call("apart__new")).ok


async def test_pinned_texts_of_one_user_are_not_shown_to_another(tmp_path: Path) -> None:
    lists = {user: [tool_definition("find", f"For {user}.")] for user in ("anna", "ben")}
    for user in lists:
        async with Runtime(server_with_lists_per_user(tmp_path, lists, lock=tmp_path / "surehand.lock")) as runtime:
            scope = runtime.scope(user=user)
            await scope.load_user_tools()
            instructions, shown = scope.instructions(), scope.describe("mcp")
    assert "Instructions of it are held back" in instructions
    assert "find is held back" in instructions
    assert "anna" not in f"{instructions}{shown}"


async def test_the_tools_of_one_user_are_not_cached_on_disk(server: SteadyServer, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    async with Runtime(server.provider(env=variables, manifest=kept)) as runtime:
        assert (await runtime.scope(user="anna").call("steady__pid")).ok
    async with Runtime(server.provider(env=variables, manifest=kept)) as runtime:
        assert "steady__pid" not in runtime.catalogue


async def test_changes_notified_to_the_first_user_are_applied(steady: SteadyServer) -> None:
    steady.set_tools(tool_definition("change"))
    async with Runtime(steady.provider(env=variables)) as runtime:
        offered = steady.set_tools(tool_definition("change"), tool_definition("added"))
        anna = runtime.scope(user="anna")
        assert await anna.call("steady__change", {"text": offered}) == Done("changed")
        await wait_until(lambda: "steady__added" in runtime.catalogue)


async def test_a_failing_server_is_not_restarted_by_every_call_of_a_user(
    server: SteadyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_DELAYS_SECONDS", (30.0,))
    server.set_flag("down")
    async with Runtime(server.provider()) as runtime:
        outcomes = [await runtime.scope(user="anna").call("steady__pid") for _ in range(5)]
    assert {outcome.code for outcome in outcomes if isinstance(outcome, Failed)} == {"unavailable"}
    assert "It is tried again in" in outcomes[-1].text
    assert server.starts == 2  # anonymous, and for anna


async def test_a_user_sees_the_last_line_of_the_users_own_process(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "surehand.mcp")
    slow = mcp.stdio(
        "sh", "-c", "echo Hello >&2; echo $NAME is no one by token: $NAME-secret >&2; exec sleep 60",
        namespace="slow", manifest=False, start_timeout=0.2, env=lambda who: {"NAME": who.user[0].upper()},
    )  # fmt: skip
    async with Runtime(slow) as runtime:
        scopes = [runtime.scope(user=user) for user in ("anna", "ben")]
        await asyncio.gather(*(scope.load_user_tools() for scope in scopes))
        await wait_until(lambda: all(f"{name}-secret" in caplog.text for name in "AB"))  # which only people read
        instructions = [await refused(scope) for scope in scopes]
    for name, each in zip("AB", instructions, strict=True):
        assert each.endswith(f"is not up after 0.2 s. It last wrote: {name} is no one by token: ***")


async def refused(scope: Any) -> str:
    with pytest.raises(Unavailable) as caught:
        await scope.refresh("slow")
    return str(caught.value)
