"""`GuardedClient`: the same guard for code that needs an httpx2 client."""

import gzip
import ssl

import httpx2
import pytest
import trustme

from surehand.core.errors import DefinitionError, Denied
from surehand.http.settings import HttpSettings
from surehand.http.transport import GuardedClient
from tests.http.server import PUBLIC, Dials, Names, online, redirect, reply
from tests.http.test_bombs import MIB, bomb
from tests.http.test_ip_addresses import FORMS


def using(answer, options=None, **settings):
    """A server, and a client of httpx2 that can reach it."""

    def make(**reach):
        return GuardedClient(HttpSettings(**reach), **(options or {}))

    return online(answer, make=make, **settings)


async def test_httpx2_users_get_responses_as_usual():
    def answer(asked):
        return reply(gzip.compress(b'{"a": 1}'), content_encoding="gzip", x="1")

    async with using(answer, {"headers": {"X-Mine": "1"}}) as (server, client):
        response = await client.post("http://site.test/p?q=1", json={"b": 2})

    assert response.json() == {"a": 1}
    assert response.headers["x"] == "1"
    assert "content-encoding" not in response.headers
    (asked,) = server.asked
    assert (asked.path, asked.body, asked.headers["host"]) == ("/p?q=1", b'{"b":2}', "site.test")
    assert (asked.headers["accept-encoding"], asked.headers["x-mine"]) == ("gzip, deflate", "1")
    assert "surehand" in asked.headers["user-agent"]


@pytest.mark.parametrize("host", FORMS)
async def test_no_denied_address_is_dialled(host):
    dials = Dials()
    async with GuardedClient(HttpSettings(resolver=Names(), dialer=dials)) as client:
        with pytest.raises((httpx2.ConnectError, httpx2.InvalidURL)):
            await client.get(f"http://{host}/")

    assert dials.dialled == []


async def test_no_redirect_leads_to_a_denied_address():
    names = Names(site_test=PUBLIC, inside_test=[PUBLIC, "10.0.0.1"])
    following = {"follow_redirects": True}
    async with using(lambda asked: redirect("http://inside.test/"), following, resolver=names) as (server, client):
        with pytest.raises(httpx2.ConnectError) as refused:
            await client.get("http://site.test/")

    assert isinstance(refused.value.__cause__, Denied)
    assert "10.0.0.1" not in str(refused.value)
    assert len(server.asked) == 1


async def test_no_redirect_leads_from_https_to_http():
    authority = trustme.CA()
    tls, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("site.test").configure_cert(tls)
    authority.configure_trust(trust)
    secure = {"tls": tls, "verify": trust, "options": {"follow_redirects": True}}

    async with using(lambda asked: redirect("http://site.test/"), **secure) as (server, client):
        with pytest.raises(httpx2.ConnectError, match="from https to http"):
            await client.get("https://site.test/")

    assert len(server.asked) == 1


async def test_credentials_are_not_sent_to_another_origin():
    def answer(asked):
        return redirect("http://other.test/end", 307) if asked.path == "/start" else reply("end")

    headers = {"Authorization": "canary", "X-Api-Key": "canary", "Cookie": "canary", "Accept": "text/x"}
    async with using(answer, {"follow_redirects": True}) as (server, client):
        response = await client.post("http://site.test/start", headers=headers, json={"a": 1})

    first, second = server.asked
    assert response.text == "end"
    assert first.raw.count(b"canary") == 3
    assert b"canary" not in second.raw
    assert (second.headers["host"], second.headers["accept"], second.body) == ("other.test", "text/x", b'{"a":1}')


@pytest.mark.parametrize("option", ["proxy", "mounts", "transport", "cookies", "trust_env", "verify"])
def test_no_option_bypasses_the_guard(option):
    with pytest.raises(DefinitionError, match=option):
        GuardedClient(**{option: None})


async def test_surplus_bytes_are_not_the_response_to_the_next_request():
    def answer(asked):
        return reply("first") + reply("forged") if asked.path == "/1" else reply("honest")

    async with using(answer) as (_, client):
        assert (await client.get("http://site.test/1")).text == "first"
        assert (await client.get("http://site.test/2")).text == "honest"


async def test_no_cookie_is_kept():
    async with using(lambda asked: reply("x", set_cookie="session=of-somebody; Path=/")) as (server, client):
        await client.get("http://site.test/1")
        await client.get("http://site.test/2")

    assert all("cookie" not in asked.headers for asked in server.asked)


async def test_proxy_variables_of_the_environment_are_ignored(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    async with using(lambda asked: reply("direct")) as (_, client):
        assert (await client.get("http://site.test/")).text == "direct"


async def test_bombs_are_cut():
    packed = bomb(100 * MIB)
    async with using(lambda asked: reply(packed, content_encoding="gzip")) as (_, client):
        with pytest.raises(httpx2.ReadError, match=r"larger than|more than"):
            await client.get("http://site.test/")


EVENTS = {"Accept": "application/json, text/event-stream"}


async def test_an_event_stream_has_no_size_limit():
    body = b"data: x\n\n" * 1000
    events = reply(body, content_type="text/event-stream; charset=utf-8")
    async with using(lambda asked: events, {"headers": EVENTS}, max_bytes=100) as (_, client):
        assert (await client.get("http://site.test/")).content == body


@pytest.mark.parametrize(
    ("method", "status", "headers"),
    [("GET", 200, {}), ("POST", 307, EVENTS), ("GET", 404, EVENTS), ("DELETE", 200, EVENTS)],
    ids=["nobody asked for events", "a redirect", "an error", "the end of a session"],
)
async def test_only_a_requested_event_stream_has_no_size_limit(method, status, headers):
    """Whoever reads these reads the whole body into memory."""
    events = reply(b"data: x\n\n" * 10_000, status, location="/", content_type="text/event-stream")
    async with using(lambda asked: events, max_bytes=100) as (_, client):
        with pytest.raises(httpx2.ReadError, match="larger than 100 bytes"):
            await client.request(method, "http://site.test/", headers=headers)


@pytest.mark.parametrize("url", ["http://site.test:22/", "ws://site.test/", "ftp://site.test/"])
async def test_other_ports_and_schemes_are_refused(url):
    dials = Dials()
    async with GuardedClient(HttpSettings(resolver=Names(site_test=PUBLIC), dialer=dials)) as client:
        with pytest.raises((httpx2.ConnectError, httpx2.UnsupportedProtocol)):
            await client.get(url)

    assert dials.dialled == []


@pytest.mark.parametrize("url", ["http://8.8.8.8/", "http://134744072/", "http://010.8.8.8/", "http://bad.test./"])
async def test_a_denied_host_is_denied_in_every_spelling(url):
    names, dials = Names(), Dials()
    async with GuardedClient(HttpSettings(resolver=names, dialer=dials, deny_hosts=["8.8.8.*", "bad.test"])) as client:
        with pytest.raises((httpx2.ConnectError, httpx2.InvalidURL)):
            await client.get(url)

    assert dials.dialled == names.asked == []


async def test_a_response_in_an_encoding_that_was_not_offered_is_refused():
    async with using(lambda asked: reply("x", content_encoding="br")) as (_, client):
        with pytest.raises(httpx2.ConnectError, match="was not asked for"):
            await client.get("http://site.test/")
