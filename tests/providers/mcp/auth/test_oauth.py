"""Signing in to MCP servers, against a real authorization server that guards a real MCP server."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull

from surehand.core.errors import DefinitionError, Denied, TimedOut, Unavailable
from surehand.http.connector import dial
from surehand.http.settings import MAX_AUTH_STEPS, HttpSettings
from surehand.http.transport import GuardedClient
from surehand.providers.mcp.auth.oauth import client_credentials, identity_assertion, oauth
from surehand.providers.mcp.connection_errors import NotSignedIn, innermost_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from tests.http.server import Names, only_loopback, port_of_nobody
from tests.providers.mcp.oauth_server import follow_redirects, read_token_files, run_oauth_server

ROOT = Path(__file__).parents[4]
HERE = HttpSettings(allow_private=["127.0.0.1"])


@pytest.fixture(scope="module")
def servers():
    with run_oauth_server() as authority:
        yield authority


@pytest.fixture
def authority(servers, monkeypatch):
    only_loopback(monkeypatch)
    servers.reset()
    return servers


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "tokens"


@pytest.fixture
def port():
    """A port that stays free during the test."""
    with port_of_nobody() as number:
        yield number


@pytest.fixture
def person(folder):
    """OAuth settings with a person at a browser; each use stands for another process: only the folder is shared."""

    def make(**settings):
        return oauth(**{"tokens": folder, "open": follow_redirects, "interactive": True, **settings})

    return make


@pytest.fixture
def headless(folder):
    """OAuth settings without a person who could sign in."""

    def make(**settings):
        return oauth(**{"tokens": folder, "interactive": False, **settings})

    return make


@asynccontextmanager
async def connected(auth, authority, user=None, settings=HERE):
    request_auth = auth.auth_for(ConnectionOwner(user), authority.url)
    async with (
        GuardedClient(settings, auth=request_auth, max_redirects=MAX_AUTH_STEPS) as http,
        Client(streamable_http_client(authority.url, http_client=http)) as client,
    ):
        yield client


async def whoami(auth, authority, user=None, settings=HERE):
    """The user as the server sees it; an error is raised by itself, not in a group."""
    try:
        async with connected(auth, authority, user, settings) as client:
            return (await client.call_tool("whoami", {})).content[0].text
    except BaseExceptionGroup as group:
        error = innermost_error(group)
    raise error


def expire_tokens(folder):
    """Make all stored tokens look expired."""
    for path in folder.glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "expires_at": time.time() - 1}))


async def test_a_person_signs_in_once_and_a_restart_remembers(authority, person, headless):
    assert await whoami(person(), authority) == "ada"
    assert authority.seen == ["registered", "signed in ada"]

    assert await whoami(headless(), authority) == "ada"
    assert authority.seen == ["registered", "signed in ada"]


async def test_a_call_that_cannot_ask_a_person_names_the_login_command(authority, headless):
    with pytest.raises(Denied, match=rf"Nobody is signed in to {authority.url}.*: surehand login {authority.url}$"):
        await whoami(headless(), authority)

    assert authority.seen == []


async def test_a_browser_is_only_opened_on_a_terminal_and_never_for_a_named_user(authority, folder, monkeypatch):
    class Screen:
        def isatty(self):
            return True

    assert not oauth(tokens=folder).can_open_browser(ConnectionOwner())
    monkeypatch.setattr(sys, "stdin", Screen())
    monkeypatch.setattr(sys, "stderr", Screen())
    assert oauth(tokens=folder).can_open_browser(ConnectionOwner())
    assert not oauth(tokens=folder).can_open_browser(ConnectionOwner("ada"))
    assert oauth(tokens=folder, interactive=True).can_open_browser(ConnectionOwner("ada"))


async def test_two_users_have_separate_tokens(authority, person, headless):
    assert await whoami(person(), authority, "ada") == "ada"
    authority.person = "bob"
    assert await whoami(person(), authority, "bob") == "bob"

    ours = headless()
    assert await whoami(ours, authority, "ada") == "ada"
    assert await whoami(ours, authority, "bob") == "bob"
    with pytest.raises(Denied, match=r"login .* --user 'eve smith'$"):
        await whoami(ours, authority, "eve smith")
    with pytest.raises(Denied):
        await whoami(ours, authority, None)


async def test_expired_tokens_are_refreshed_after_a_restart_at_the_same_server(authority, person, headless, folder):
    await whoami(person(), authority)
    authority.expire()
    expire_tokens(folder)

    assert await whoami(headless(), authority) == "ada"
    assert authority.seen[2:] == ["renewed ada"]
    assert await whoami(headless(), authority) == "ada"
    assert authority.seen[2:] == ["renewed ada"]


async def test_tokens_that_the_server_rejects_are_refreshed(authority, person, headless):
    """Its time is not over, or the server did not say how long that is."""
    authority.lifetime = None
    await whoami(person(), authority)
    authority.expire()

    assert await whoami(headless(), authority) == "ada"
    assert authority.seen[2:] == ["renewed ada"]


async def test_tokens_are_refreshed_during_a_connection(authority, person):
    async with connected(person(), authority) as client:
        assert (await client.call_tool("whoami", {})).content[0].text == "ada"
        authority.expire()
        assert (await client.call_tool("whoami", {})).content[0].text == "ada"

    assert authority.seen[2:] == ["renewed ada"]


async def test_parallel_calls_refresh_once(authority, person):
    authority.refresh_seconds = 0.05
    async with connected(person(), authority) as client:
        authority.expire()
        found = await asyncio.gather(*(client.call_tool("whoami", {}) for _ in range(10)))

    assert {result.content[0].text for result in found} == {"ada"}
    assert authority.seen[2:] == ["renewed ada"]


async def test_calls_do_not_wait_for_each_other(authority, person):
    async with connected(person(), authority) as client:
        found = await asyncio.gather(*(client.call_tool("meet", {"others": 5}) for _ in range(5)))

    assert [result.content[0].text for result in found] == ["met"] * 5


async def test_a_rejected_refresh_token_needs_a_person_and_causes_no_loop(authority, person, headless, folder, port):
    await whoami(person(redirect_port=port), authority)
    authority.expire()
    authority.refresh_tokens.clear()

    for _ in range(3):
        with pytest.raises(Denied, match="surehand login"):
            await whoami(headless(), authority)

    assert authority.seen[2:] == ["reused"]
    assert read_token_files(folder)[0]["tokens"] is None
    assert await whoami(person(redirect_port=port), authority) == "ada"
    assert authority.seen[3:] == ["signed in ada"]  # and not registered again


async def test_an_authorization_server_that_is_unavailable_costs_no_tokens(authority, person, headless):
    await whoami(person(), authority)
    authority.expire()
    authority.broken = True

    with pytest.raises(Unavailable, match="HTTP 503"):
        await whoami(headless(), authority)
    authority.broken = False
    assert await whoami(headless(), authority) == "ada"


async def test_a_call_cancelled_during_a_refresh_loses_no_tokens(authority, person, headless):
    async with connected(person(), authority) as client:
        authority.expire()
        authority.refresh_is_held = True
        calling = asyncio.create_task(client.call_tool("whoami", {}))
        while authority.refresh_tokens:  # noqa: ASYNC110  # another thread's
            await asyncio.sleep(0.01)
        calling.cancel()
        authority.refresh_is_held = False
        await asyncio.wait({calling})

    assert calling.cancelled()
    assert await whoami(headless(), authority) == "ada"
    assert authority.seen[2:] == ["renewed ada"]


async def test_a_cancelled_sign_in_releases_its_lock(authority, person):
    opened = asyncio.Event()

    async def look_at_it(url):
        opened.set()

    ours = person(open=look_at_it)
    waiting = asyncio.create_task(whoami(ours, authority))
    await opened.wait()
    waiting.cancel()
    await asyncio.wait({waiting})

    assert waiting.cancelled() or waiting.exception()
    assert await whoami(person(), authority) == "ada"


async def test_waiting_for_a_person_times_out(authority, person):
    with pytest.raises(TimedOut, match=r"Nobody signed in within 0\.1 seconds"):
        await whoami(person(open=lambda url: None, timeout=0.1), authority)


async def test_a_failed_sign_in_is_not_repeated_by_every_waiting_call(authority, person):
    asked, refusals = [], []
    everybody = asyncio.Event()

    async def show(url):
        asked.append(url)
        await everybody.wait()

    async def count(response):
        if response.status_code == 401:
            refusals.append(response)
        if len(refusals) == 5:
            everybody.set()

    ours = person(open=show, timeout=0.2)
    hooks = {"response": [count]}

    async def call():
        request_auth = ours.auth_for(ConnectionOwner(), authority.url)
        async with GuardedClient(HERE, auth=request_auth, max_redirects=MAX_AUTH_STEPS, event_hooks=hooks) as http:
            await http.post(authority.url, json={})

    found = await asyncio.gather(*(call() for _ in range(5)), return_exceptions=True)

    assert {type(error) for error in found} == {NotSignedIn, TimedOut}
    assert len(asked) == 1


async def test_a_person_who_refuses_ends_the_sign_in(authority, person):
    authority.refuses = True

    with pytest.raises(Denied, match=r"refused \(access_denied\)"):
        await whoami(person(), authority)


async def test_further_scopes_are_requested_when_a_tool_needs_them(authority, person, folder):
    async with connected(person(), authority) as client:
        assert read_token_files(folder)[0]["tokens"]["scope"] == "tools"
        result = await client.call_tool("admin", {})

    assert "Unknown tool" in result.content[0].text  # and so it was let in
    assert read_token_files(folder)[0]["tokens"]["scope"] == "tools admin"


async def test_a_call_that_cannot_request_scopes_names_the_missing_ones(authority, person, headless):
    await whoami(person(), authority)

    auth = headless().auth_for(ConnectionOwner(), authority.url)
    async with GuardedClient(HERE, auth=auth, max_redirects=MAX_AUTH_STEPS) as http:
        with pytest.raises(Denied, match=r"does not cover this\. It asks for 'admin'.*surehand login") as refused:
            await http.post(authority.url, json={"params": {"name": "admin"}})

    assert not refused.value.executed
    assert authority.seen[2:] == []


async def test_scopes_of_the_developer_are_requested(authority, person, folder):
    await whoami(person(scopes=["tools", "admin"]), authority)

    assert read_token_files(folder)[0]["tokens"]["scope"] == "tools admin"


async def test_a_client_that_is_registered_already_signs_in_without_registering(
    authority, person, headless, folder, port
):
    await whoami(person(redirect_port=port), authority)
    (client,) = authority.clients.values()
    known = {"client_id": client.client_id, "client_secret": client.client_secret, "method": "client_secret_post"}
    for path in folder.glob("*"):
        path.unlink()
    authority.seen.clear()

    assert await whoami(person(redirect_port=port, **known), authority) == "ada"
    assert authority.seen == ["signed in ada"]
    assert client.client_secret not in json.dumps(read_token_files(folder))
    with pytest.raises(Denied):  # what was signed in to as one client is not used as another
        await whoami(headless(client_id="another"), authority)


async def test_a_secret_is_not_sent_to_an_authorization_server_that_was_not_configured(authority, person):
    given = {"client_id": "c", "client_secret": "s3cret"}
    authority.metadata = {
        "resource": authority.url, "authorization_servers": [authority.issuer.replace("127.0.0.1", "localhost")],
    }  # fmt: skip
    both = HttpSettings(allow_private=["127.0.0.1", "localhost"])

    with pytest.raises(Denied, match="issuer"):
        await whoami(person(**given, issuer="http://127.0.0.1:1"), authority, settings=both)
    with pytest.raises(Denied):
        await whoami(client_credentials("c", "s3cret", issuer="http://127.0.0.1:1"), authority, settings=both)

    assert not any("program" in seen for seen in authority.seen)


async def test_a_secret_stays_on_the_servers_own_host_unless_an_issuer_is_named(authority):
    elsewhere = authority.issuer.replace("127.0.0.1", "localhost")
    authority.metadata = {"resource": authority.url, "authorization_servers": [elsewhere]}
    authority.says = {"issuer": elsewhere, "token_endpoint": f"{elsewhere}/token"}
    both = HttpSettings(allow_private=["127.0.0.1", "localhost"])

    with pytest.raises(Denied, match=r"leads to the authorisation server localhost.*name it with `issuer`"):
        await whoami(client_credentials("program", "s3cret"), authority, settings=both)
    assert authority.seen == []
    assert (
        await whoami(client_credentials("program", "s3cret", issuer=elsewhere), authority, settings=both) == "program"
    )


async def test_a_client_metadata_url_replaces_registration(authority, person, port):
    ours = "https://surehand.test/client.json"
    authority.says = {"client_id_metadata_document_supported": True}
    authority.clients[ours] = OAuthClientInformationFull(
        client_id=ours,
        redirect_uris=[f"http://127.0.0.1:{port}/callback"],
        token_endpoint_auth_method="none",
        scope="tools",
    )

    assert await whoami(person(client_metadata_url=ours, redirect_port=port), authority) == "ada"
    assert authority.seen == ["signed in ada"]


async def test_an_identity_provider_vouches_for_each_user(authority):
    async def said(audience, resource):
        return f"{audience} says: ada"

    grants = ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    authority.clients["c"] = OAuthClientInformationFull(
        client_id="c", client_secret="s3cret", grant_types=grants, token_endpoint_auth_method="client_secret_post"
    )
    ours = identity_assertion("c", "s3cret", issuer=f"{authority.issuer}/", assertion=said)

    assert await whoami(ours, authority, "ada") == "ada"
    assert authority.seen == [f"asserted {authority.issuer}/ says: ada {authority.url}"]
    assert "s3cret" not in repr(ours)


async def test_a_program_signs_in_as_itself(authority):
    ours = client_credentials("program", "s3cret", ["tools"])

    assert await whoami(ours, authority) == "program"
    assert await whoami(ours, authority, "somebody") == "program"
    assert authority.seen == ["program Basic cHJvZ3JhbTpzM2NyZXQ= tools"]
    authority.expire()
    assert await whoami(ours, authority) == "program"
    assert len(authority.seen) == 2


async def test_a_refused_program_gets_the_oauth_error_code(authority):
    authority.refuses = True

    with pytest.raises(Denied, match=r"refused to sign us in \(invalid_client\)\. Somebody has to") as refused:
        await whoami(client_credentials("program", "s3cret"), authority)

    assert "s3cret" not in str(refused.value)


async def test_a_program_signs_in_with_a_key(authority):
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    ours = client_credentials("program", private_key=pem, algorithm="ES256")

    assert await whoami(ours, authority) == "program"
    assert "by key" in authority.seen
    assert "PRIVATE" not in repr(ours)


async def test_metadata_with_a_private_address_are_refused_before_connecting(authority, person):
    dialled = []

    async def dialer(address, port, timeout):
        dialled.append(address)
        return await dial(address, port, timeout)

    authority.metadata = {"resource": authority.url, "authorization_servers": ["http://10.0.0.5/"]}
    settings = HttpSettings(allow_private=["127.0.0.1"], resolver=Names(), dialer=dialer)

    with pytest.raises(httpx2.ConnectError) as refused:
        await whoami(person(), authority, settings=settings)

    assert isinstance(refused.value.__cause__, Denied)
    assert set(dialled) == {"127.0.0.1"}


async def test_metadata_for_another_server_are_refused(authority, person):
    authority.metadata = {"resource": "https://bank.test/", "authorization_servers": [authority.issuer]}

    with pytest.raises(Denied, match="does not match"):
        await whoami(person(), authority)

    assert authority.seen == []


async def test_a_response_from_another_issuer_is_refused(authority, person, folder):
    authority.says_iss = True

    with pytest.raises(Denied, match="iss mismatch"):
        await whoami(person(), authority)

    assert read_token_files(folder)[0]["tokens"] is None


async def test_no_token_is_in_a_log_or_an_error_or_a_repr(authority, person, headless, caplog):
    caplog.set_level(logging.DEBUG)
    ours = person(client_id=None)
    await whoami(ours, authority)
    authority.expire()
    await whoami(headless(), authority)
    authority.refresh_tokens.clear()
    authority.expire()
    with pytest.raises(Denied) as refused:
        await whoami(headless(), authority)

    shown = caplog.text + repr(refused.value) + repr(ours) + repr(ours.auth_for(ConnectionOwner(), authority.url))
    shown += repr(ours.tokens.file_for(authority.url, None)) + repr(ours.tokens.file_for(authority.url, None).read())
    assert authority.all_tokens
    assert not [token for token in authority.all_tokens if token in shown]
    (client,) = authority.clients.values()
    assert client.client_secret not in shown


@pytest.mark.long
@pytest.mark.timeout(60)  # another interpreter starts and imports the MCP SDK
async def test_two_processes_use_a_refresh_token_once(authority, person, headless, folder):
    await whoami(person(), authority)
    authority.expire()
    expire_tokens(folder)
    authority.refresh_seconds = 0.3
    process = [sys.executable, "-P", "-c", _CHILD, str(folder), authority.url]
    child = subprocess.Popen(process, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert await asyncio.to_thread(child.stdout.readline) == "ready\n"
    ours = asyncio.create_task(whoami(headless(), authority))
    said, _ = await asyncio.to_thread(child.communicate, "go\n")

    assert await ours == "ada"
    assert said == "400\n"  # it was let in, and said nothing that makes sense
    assert authority.seen[2:] == ["renewed ada"]


_CHILD = """
import asyncio, sys
from surehand.http.connector import dial
from surehand.http.settings import MAX_AUTH_STEPS, HttpSettings
from surehand.http.transport import GuardedClient
from surehand.providers.mcp.auth.oauth import oauth
from surehand.providers.mcp.connection_owner import ConnectionOwner
folder, url = sys.argv[1:]
auth = oauth(tokens=folder, interactive=False).auth_for(ConnectionOwner(), url)
async def main():
    async with GuardedClient(HttpSettings(allow_private=["127.0.0.1"]), auth=auth, max_redirects=20) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        print((await client.post(url, json={})).status_code)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "make",
    [
        lambda: oauth(scopes=['a"b']),
        lambda: oauth(client_secret="s"),
        lambda: oauth(redirect_port=70_000),
        lambda: oauth(timeout=0),
        lambda: oauth(client_metadata_url="http://here.test/c.json"),
        lambda: oauth(client_metadata_url="https://here.test/"),
        lambda: oauth(issuer="auth.test"),
        lambda: client_credentials("c"),
        lambda: client_credentials("c", "s", private_key="k"),
        lambda: identity_assertion("c", "s", issuer="ftp://x", assertion=follow_redirects),
    ],
)
def test_invalid_settings_are_definition_errors(make):
    with pytest.raises(DefinitionError, match="Fix: "):
        make()
