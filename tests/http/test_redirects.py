"""Redirects: the guard checks every hop, and credentials stay with their origin."""

import pytest

from surehand.core.errors import Denied, ToolError
from surehand.http.client import HttpClient
from tests.http.server import PUBLIC, Names, internet, online, redirect, reply, serving

OTHER = "1.1.1.1"


def leading(**places):
    """A server whose paths lead elsewhere; every other path says which one it is."""

    def answer(asked):
        given = places.get(asked.path.strip("/").partition("?")[0])
        if given is None:
            return reply(asked.path)
        status, location = given if isinstance(given, tuple) else (302, given)
        return redirect(location, status)

    return answer


@pytest.mark.parametrize(
    ("location", "host", "path"),
    [
        ("/end", "site.test", "/end"),
        ("end", "site.test", "/end"),
        ("../../end", "site.test", "/end"),
        ("?q=1", "site.test", "/start?q=1"),
        ("//other.test/end", "other.test", "/end"),
        ("http://other.test:80/end#part", "other.test", "/end"),
        ("HTTP://OTHER.TEST./end", "other.test", "/end"),
        ("http://other.test", "other.test", "/"),
        ("http://other.test:8080/end", "other.test:8080", "/end"),
        ("/end?a=%20b", "site.test", "/end?a=%20b"),
        ("/ä", "site.test", "/%C3%A4"),
        ("///other.test/end", "site.test", "/other.test/end"),
        ("http:\\\\127.0.0.1\\", "site.test", "/%5C%5C127.0.0.1%5C"),
    ],
)
async def test_a_redirect_is_followed_to_its_location(location, host, path):
    seen = []

    def answer(asked):
        seen.append(asked)
        return redirect(location) if len(seen) == 1 else reply("there")

    async with online(answer) as (_, client):
        response = await client.request("GET", "http://site.test/start")

    assert response.body == b"there"
    assert (seen[1].headers["host"], seen[1].path) == (host, path)
    assert response.url == f"http://{host}{path}"


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "data:text/html,hello",
        "javascript:alert(1)",
        "ftp://other.test/",
        "gopher://other.test:70/_x",
        "http://127.0.0.1/",
        "//127.0.0.1/",
        "//localhost/",
        "http://inside.test/",
        "http://[::ffff:7f00:1]/",
        "http://2130706433/",
        "http://user:hunter2@other.test/",
        "http://127.0.0.1:80\\@other.test/",
        "http://other.test:22/",
        "http://other.test:0/",
        "http://[",
        "http://[::1",
        "http:// other.test/",
        "http://other.test/\x7f",
        "http://%6cocalhost/",
    ],
)
async def test_a_redirect_to_a_denied_target_is_refused(location):
    async with serving(leading(start=location)) as server:
        dials = internet(server, a_1_1_1_1=server)
        names = Names(site_test=PUBLIC, other_test=OTHER, inside_test="10.0.0.1", localhost="127.0.0.1")
        async with HttpClient(resolver=names, dialer=dials) as client:
            with pytest.raises(ToolError) as refused:
                await client.request("GET", "http://site.test/start?token=canary")

    assert refused.value.code in ("denied", "failed")
    assert dials.dialled == [(PUBLIC, 80)]
    assert "canary" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "method", "then", "keeps"),
    [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "DELETE", "GET", False),
        (301, "PUT", "PUT", True),
        (302, "PATCH", "PATCH", True),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
        (308, "PUT", "PUT", True),
        (303, "HEAD", "HEAD", False),
        (307, "GET", "GET", False),
    ],
)
async def test_the_method_changes_as_the_standard_says(status, method, then, keeps):
    async with online(leading(start=(status, "/end"))) as (server, client):
        body = b"{}" if method in ("POST", "PUT", "PATCH", "DELETE") else None
        headers = {"Content-Type": "application/json", "Authorization": "Bearer x"}
        await client.request(method, "http://site.test/start", body=body, headers=headers, idempotency_key="call-1")

    first, second = server.asked
    assert (first.method, second.method) == (method, then)
    assert second.body == (b"{}" if keeps else b"")
    assert ("idempotency-key" in second.headers) is (keeps and then not in ("GET", "HEAD"))
    assert second.headers["authorization"] == "Bearer x"  # the same origin
    if not keeps and body:
        assert "content-type" not in second.headers
        assert second.headers.get("content-length", "0") == "0"


@pytest.mark.parametrize("location", ["http://other.test/end", "http://site.test:8080/end"])
async def test_credentials_stay_with_their_origin(location):
    secrets = ["Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token", "X-Subscription-Token", "X-Anything"]
    async with online(leading(start=(307, location))) as (server, client):
        headers = {
            **dict.fromkeys(secrets, "canary"),
            "Accept": "text/x",
            "User-Agent": "me",
        }
        await client.request("DELETE", "http://site.test/start", headers=headers, idempotency_key="canary")

    first, second = server.asked
    assert first.raw.count(b"canary") == len(secrets) + 1
    assert b"canary" not in second.raw
    assert (second.headers["accept"], second.headers["user-agent"]) == ("text/x", "me")


@pytest.mark.parametrize("location", ["http://other.test/end", "http://site.test:8080/end"])
@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_is_not_sent_to_another_origin(location, status):
    async with online(leading(start=(status, location))) as (server, client):
        with pytest.raises(Denied, match="Send it there by itself"):
            await client.request("POST", "http://site.test/start", body=b"the body")

    assert len(server.asked) == 1


async def test_body_headers_are_dropped_with_the_body():
    async with online(leading(start=(303, "http://other.test/end"))) as (server, client):
        headers = {"Content-Type": "application/json", "Accept": "text/x"}
        await client.request("POST", "http://site.test/start", headers=headers, body=b"{}")

    assert "content-type" not in server.asked[1].headers
    assert server.asked[1].headers["accept"] == "text/x"


async def test_credentials_that_were_dropped_do_not_come_back():
    async with online(leading(start="http://other.test/back", back="http://site.test/end")) as (server, client):
        await client.request("GET", "http://site.test/start", headers={"Authorization": "canary"})

    assert [("authorization" in asked.headers) for asked in server.asked] == [True, False, False]


async def test_a_redirect_loop_is_an_error():
    async with online(leading(a="/b", b="/c", c="/a"), max_redirects=50) as (server, client):
        with pytest.raises(ToolError, match="circle"):
            await client.request("GET", "http://site.test/a")

    assert [asked.path for asked in server.asked] == ["/a", "/b", "/c"]


async def test_too_many_redirects_are_an_error():
    def onwards(asked):
        return redirect(f"/{int(asked.path.strip('/')) + 1}")

    async with online(onwards) as (server, client):
        with pytest.raises(ToolError, match="more than 5 redirects"):
            await client.request("GET", "http://site.test/0")

    assert len(server.asked) == 6


async def test_redirects_that_are_not_followed_are_returned():
    async with online(leading(start="/end")) as (server, client):
        response = await client.request("GET", "http://site.test/start", max_redirects=0)

    assert (response.status, response.header("location")) == (302, "/end")
    assert len(server.asked) == 1


@pytest.mark.parametrize("location", ["http://[", "file:///etc/passwd", "http://user:x@127.0.0.1/", "\xff"])
async def test_a_redirect_that_is_not_to_be_followed_may_lead_anywhere(location):
    async with online(leading(start=location)) as (_, client):
        response = await client.request("GET", "http://site.test/start", max_redirects=0)

    assert (response.status, response.header("location")) == (302, location)


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
async def test_other_statuses_with_a_location_are_returned(status):
    async with online(lambda asked: redirect("http://127.0.0.1/", status)) as (_, client):
        assert (await client.request("GET", "http://site.test/start")).status == status


async def test_a_redirect_without_a_location_is_returned():
    async with online(lambda asked: reply("nowhere", 302, "Found")) as (_, client):
        assert (await client.request("GET", "http://site.test/start")).body == b"nowhere"


async def test_a_page_that_refreshes_itself_is_not_followed():
    page = '<meta http-equiv="refresh" content="0; url=http://127.0.0.1/">'
    async with online(lambda asked: reply(page, refresh="0; url=http://127.0.0.1/")) as (server, client):
        assert (await client.request("GET", "http://site.test/")).body == page.encode()

    assert len(server.asked) == 1


async def test_each_hop_is_resolved_again():
    async with serving(leading(start="/end")) as server:
        names = Names(site_test=[[PUBLIC], ["127.0.0.1"]])
        dials = internet(server)
        async with HttpClient(resolver=names, dialer=dials) as client:
            with pytest.raises(Denied):
                await client.request("GET", "http://site.test/start")

    assert dials.dialled == [(PUBLIC, 80)]
    assert names.asked == ["site.test", "site.test"]
