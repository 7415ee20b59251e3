"""`HttpClient`, against a real server on loopback."""

import asyncio
import logging
import socket

import httpcore2
import pytest

from surehand.core.errors import (
    DefinitionError,
    Denied,
    InvalidArguments,
    NotFound,
    NotStarted,
    TimedOut,
    ToolError,
    Unavailable,
)
from surehand.http.client import HttpClient
from surehand.http.settings import HttpSettings
from tests.http.server import PUBLIC, Dials, Names, chunked, internet, online, port_of_nobody, reply, serving


async def test_a_response_has_status_headers_and_body():
    async with online(lambda asked: reply("hello", 201, "Made", content_type="text/plain", x="ä")) as (server, client):
        response = await client.request("get", "http://site.test/a?b=c#d", headers={"X-Mine": "1"})

    assert (response.status, response.reason, response.body) == (201, "Made", b"hello")
    assert (response.url, response.method, response.truncated) == ("http://site.test/a?b=c", "GET", False)
    assert (response.header("Content-Type"), response.header("x"), response.header("none")) == ("text/plain", "ä", "")
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.headers["host"]) == ("GET", "/a?b=c", "site.test")
    assert asked.headers["x-mine"] == "1"
    assert asked.headers["accept-encoding"] == "gzip, deflate"
    assert "surehand" in asked.headers["user-agent"]
    with pytest.raises(AttributeError):
        response.status = 200


@pytest.mark.parametrize("path", ["/a/../b", "/a//b", "/a|b^c`{d}", "/%7Ea%2fb", "/?a=b|c&d=[e]", "/?a=%20+b'"])
async def test_a_path_is_sent_as_it_was_given(path):
    async with online(lambda asked: reply("x")) as (server, client):
        await client.request("GET", f"http://site.test{path}")

    assert server.asked[0].path == path


async def test_a_url_that_encoding_makes_too_long_is_refused():
    async with HttpClient(dialer=(dials := Dials())) as client:
        with pytest.raises(InvalidArguments, match="shorter") as refused:
            await client.request("GET", "http://1.1.1.1/" + "\N{GRINNING FACE}" * 8000)

    assert refused.value.executed is False
    assert dials.dialled == []


async def test_private_addresses_need_permission():
    async with serving(lambda asked: reply("inside")) as server:
        url = f"http://127.0.0.1:{server.port}/"
        ports = [server.port]

        for allowed in (True, ["127.0.0.1"], ["127.0.0.0/8"], ["127.0.0.*"]):
            async with HttpClient(allow_private=allowed, ports=ports) as client:
                assert (await client.request("GET", url)).body == b"inside"
        for refused in (False, [], ["10.0.0.0/8"], ["localhost"]):
            async with HttpClient(allow_private=refused, ports=ports) as client:
                with pytest.raises(Denied, match="public internet"):
                    await client.request("GET", url)


async def test_a_host_may_be_permitted_by_its_name_with_the_systems_own_resolver():
    async with serving(lambda asked: reply("inside")) as server:
        client = HttpClient(allow_private=["localhost"], ports=[server.port])
        assert (await client.request("GET", f"http://localhost:{server.port}/")).body == b"inside"
        with pytest.raises(Denied):
            await client.request("GET", f"http://127.0.0.1:{server.port}/")
        await client.aclose()


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "0.0.0.0"])
async def test_allow_private_does_not_permit_cloud_metadata_addresses(address):
    dials = Dials()

    async with HttpClient(allow_private=True, resolver=Names(cloud_test=address), dialer=dials) as client:
        with pytest.raises(Denied):
            await client.request("GET", "http://cloud.test/")
    async with HttpClient(allow_private=[address], resolver=Names(cloud_test=address), dialer=dials) as client:
        with pytest.raises(NotStarted):  # nobody is there, but it was tried
            await client.request("GET", "http://cloud.test/")

    assert dials.dialled == [(address, 80)]


async def test_a_refusal_does_not_reveal_the_internal_network():
    secret = "10.20.30.40"
    async with HttpClient(resolver=Names(intranet_test=[PUBLIC, secret]), dialer=Dials()) as client:
        with pytest.raises(Denied) as refused:
            await client.request("GET", "http://intranet.test/?token=abc", headers={"Authorization": "Bearer xyz"})

    assert "intranet.test" in str(refused.value)
    for hidden in (secret, "private network", PUBLIC, "abc", "xyz"):
        assert hidden not in str(refused.value)


async def test_any_port_of_a_permitted_private_address_may_be_reached_but_not_of_a_public_one():
    async with serving(lambda asked: reply("inside")) as server, HttpClient(allow_private=["127.0.0.1"]) as client:
        assert (await client.request("GET", f"http://127.0.0.1:{server.port}/")).body == b"inside"

    names, dials = Names(site_test=PUBLIC, mixed_test=[PUBLIC, "127.0.0.1"]), Dials()
    async with HttpClient(allow_private=True, resolver=names, dialer=dials) as client:
        for host in ("site.test", "mixed.test"):
            with pytest.raises(Denied, match="Port 6379"):
                await client.request("GET", f"http://{host}:6379/")
    assert dials.dialled == []


async def test_ports_are_those_of_the_web_unless_others_are_named():
    async with HttpClient(resolver=Names(site_test=PUBLIC), dialer=(dials := Dials())) as client:
        for port in (80, 443, 8080, 8443):
            with pytest.raises(NotStarted):
                await client.request("GET", f"http://site.test:{port}/")
        for port in (22, 25, 3306, 6379, 9200, 11211):
            with pytest.raises(Denied, match=f"Port {port}"):
                await client.request("GET", f"http://site.test:{port}/")

    assert [port for _, port in dials.dialled] == [80, 443, 8080, 8443]


async def test_hosts_are_allowed_and_denied_by_pattern():
    names = Names(a_site_test=PUBLIC, site_test=PUBLIC, bad_site_test=PUBLIC, evil_test="9.9.9.9")
    settings = {"resolver": names, "dialer": (dials := Dials())}

    async with HttpClient(allow_hosts=["*.site.test"], deny_hosts=["BAD.*"], **settings) as client:
        for host in ("site.test", "bad.site.test", "bad.site.test.", "evil.test", "9.9.9.9"):
            with pytest.raises(Denied, match="not among the hosts"):
                await client.request("GET", f"http://{host}/")
        with pytest.raises(NotStarted):
            await client.request("GET", "http://a.site.test/")
    async with HttpClient(deny_hosts=["9.0.0.0/8"], **settings) as client:
        for host in ("9.9.9.9", "evil.test", "[::ffff:9.9.9.9]", "[64:ff9b::9.9.9.9]"):
            with pytest.raises(Denied):
                await client.request("GET", f"http://{host}/")

    assert dials.dialled == [(PUBLIC, 80)]


async def test_a_second_address_is_tried_when_the_first_does_not_answer():
    async with serving(lambda asked: reply("second")) as server:
        dials = internet(server)
        async with HttpClient(resolver=Names(site_test=["1.1.1.1", PUBLIC]), dialer=dials) as client:
            assert (await client.request("GET", "http://site.test/")).body == b"second"

    assert dials.dialled == [("1.1.1.1", 80), (PUBLIC, 80)]


async def test_a_host_with_too_many_addresses_is_refused():
    many = [f"1.1.{n // 256}.{n % 256}" for n in range(5000)]
    async with HttpClient(resolver=Names(many_test=many), dialer=(dials := Dials())) as client:
        with pytest.raises(Denied, match="5000 addresses"):
            await client.request("GET", "http://many.test/")

    assert dials.dialled == []


@pytest.mark.parametrize(
    ("name", "value"), {"allow_hosts": "site.test", "deny_hosts": "evil.test", "allow_private": "10.0.0.0/8"}.items()
)
async def test_settings_given_as_iterators_still_apply(name, value):
    names, dials = Names(evil_test=PUBLIC, site_test="10.0.0.1"), Dials()

    async with HttpClient(resolver=names, dialer=dials, **{name: iter([value])}) as client:
        with pytest.raises(Denied if name != "allow_private" else NotStarted):
            await client.request("GET", "http://evil.test/")
        with pytest.raises(NotStarted if name == "allow_private" else Denied):
            await client.request("GET", "http://site.test/")

    assert dials.dialled == ([(PUBLIC, 80), ("10.0.0.1", 80)] if name == "allow_private" else [])


async def test_an_ipv4_mapped_address_is_dialled_as_ipv4():
    async with HttpClient(resolver=Names(site_test="::ffff:1.2.3.4"), dialer=(dials := Dials())) as client:
        with pytest.raises(NotStarted):
            await client.request("GET", "http://site.test/")

    assert dials.dialled == [("1.2.3.4", 80)]


async def test_connections_are_reused_for_the_same_host_only():
    async with online(lambda asked: reply("x")) as (server, client):
        await client.request("GET", "http://site.test/1")
        await client.request("GET", "http://site.test/2")
        assert server.connections == 1
        await client.request("GET", "http://other.test/3")

        assert server.connections == 2
        assert [asked.headers["host"] for asked in server.asked] == ["site.test", "site.test", "other.test"]


@pytest.mark.parametrize("split", [False, True])
async def test_surplus_bytes_are_not_the_response_to_the_next_request(split):
    async def answer(asked):
        if asked.path != "/1":
            yield reply("honest")
        elif split:
            yield reply("first")
            yield reply("forged")
        else:
            yield reply("first") + reply("forged")

    async with online(answer) as (_, client):
        assert (await client.request("GET", "http://site.test/1")).body == b"first"

        found = await asyncio.gather(*(client.request("GET", f"http://site.test/{n}") for n in range(2, 5)))

    assert [response.body for response in found] == [b"honest"] * 3


async def test_no_cookie_is_kept_between_requests():
    async with online(lambda asked: reply("x", set_cookie="session=of-somebody; Path=/")) as (server, client):
        await client.request("GET", "http://site.test/1")
        await client.request("GET", "http://site.test/2")

    assert all("cookie" not in asked.headers for asked in server.asked)


async def test_proxy_variables_of_the_environment_are_ignored(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")

    async with online(lambda asked: reply("direct")) as (_, client):
        assert (await client.request("GET", "http://site.test/")).body == b"direct"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_an_idempotency_key_is_sent_with_unsafe_methods(method):
    async with online(lambda asked: reply("x")) as (server, client):
        await client.request(method, "http://site.test/", idempotency_key="call-1")
        await client.request(method, "http://site.test/", idempotency_key="x", headers={"idempotency-key": "mine"})

    assert [asked.headers["idempotency-key"] for asked in server.asked] == ["call-1", "mine"]


@pytest.mark.parametrize("key", ["a\r\nX-Injected: 1", "snow \u2603", " ", "x" * 300, "\ud800"])
async def test_a_key_that_cannot_be_a_header_is_hashed(key):
    async with online(lambda asked: reply("x")) as (server, client):
        for _ in range(2):
            await client.request("POST", "http://site.test/", idempotency_key=key)

    first, second = (asked.headers["idempotency-key"] for asked in server.asked)
    assert first == second
    assert len(first) == 64
    assert "x-injected" not in server.asked[0].headers


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_an_idempotency_key_is_not_sent_with_safe_methods(method):
    async with online(lambda asked: reply()) as (server, client):
        await client.request(method, "http://site.test/", idempotency_key="call-1")

    assert "idempotency-key" not in server.asked[0].headers


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "BREW", "GET /x HTTP/1.1\r\nA: b", "", "GET "])
async def test_other_methods_are_refused(method):
    async with HttpClient(dialer=(dials := Dials())) as client:
        with pytest.raises(InvalidArguments, match="is no method"):
            await client.request(method, "http://site.test/")

    assert dials.dialled == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "a\r\nX-Injected: 1"),
        ("X-A", "a\nb"),
        ("X-A", "a\rb"),
        ("X-A", "a\0b"),
        ("X-A", "a\x7fb"),
        ("X-A", "snow \u2603"),
        ("X-A", "\ud800"),
        ("X-A\r\nB", "x"),
        ("X A", "x"),
        ("", "x"),
        ("X:A", "x"),
        ("Ä", "x"),
        ("Host", "evil.test"),
        ("hOsT", "evil.test"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close, X-A"),
        ("Upgrade", "h2c"),
        ("Proxy-Authorization", "Basic x"),
        ("TE", "trailers"),
        ("Expect", "100-continue"),
        ("X-Long", "x" * 70_000),
    ],
)
async def test_headers_that_could_mislead_a_server_are_refused(name, value):
    async with HttpClient(dialer=(dials := Dials())) as client:
        with pytest.raises(InvalidArguments) as refused:
            await client.request("GET", "http://site.test/", headers={name: value})

    assert dials.dialled == []
    assert "evil" not in str(refused.value)
    assert len(str(refused.value)) < 200


async def test_callers_cannot_set_accept_encoding():
    async with online(lambda asked: reply("x")) as (server, client):
        await client.request("GET", "http://site.test/", headers={"Accept-Encoding": "br, zstd", "X-A": "\xe4"})

    assert server.asked[0].raw.lower().count(b"accept-encoding") == 1
    assert server.asked[0].headers["accept-encoding"] == "gzip, deflate"
    assert server.asked[0].headers["x-a"] == "\xe4"


async def test_a_body_is_streamed_in_bounded_pieces():
    body = bytes(range(256)) * 4096
    online_with = online(lambda asked: chunked(body, b"end"))
    async with online_with as (_, client), client.stream("GET", "http://site.test/") as incoming:
        pieces = [piece async for piece in incoming.chunks()]

    assert b"".join(pieces) == body + b"end"
    assert max(map(len, pieces)) <= 65_536
    assert incoming.head.status == 200


async def test_a_stream_that_is_left_early_closes_its_connection():
    async def endless(asked):
        yield reply(content_length=None, transfer_encoding="chunked")
        while True:
            yield b"5\r\nhello\r\n"
            await asyncio.sleep(0)

    async with online(endless) as (_, client):
        async with client.stream("GET", "http://site.test/") as incoming:
            async for _ in incoming.chunks():
                break
        assert not client._transport._pool.connections


async def test_answers_without_a_body_are_read():
    def answer(asked):
        return reply(status=204, content_length=None) if asked.method == "POST" else reply(content_length=5_000_000_000)

    async with online(answer) as (_, client):
        assert (await client.request("HEAD", "http://site.test/")).body == b""
        assert (await client.request("POST", "http://site.test/")).status == 204


async def test_an_unknown_host_is_reported(monkeypatch):
    def nobody(*args, **more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with HttpClient(resolver=Names(), dialer=Dials()) as client:
        with pytest.raises(NotFound, match=r"There is no host nowhere\.test"):
            await client.request("GET", "http://nowhere.test/")
    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    async with HttpClient(dialer=Dials()) as client:
        with pytest.raises(NotFound, match=r"There is no host nowhere\.test"):
            await client.request("GET", "http://nowhere.test/")


async def test_a_failed_lookup_can_be_retried(monkeypatch):
    def down(*args, **more):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", down)
    async with HttpClient(dialer=Dials()) as client:
        with pytest.raises(Unavailable, match="could not be looked up"):
            await client.request("GET", "http://nowhere.test/")


async def test_a_host_that_is_not_there_is_unavailable():
    async with HttpClient(resolver=Names(site_test=PUBLIC), dialer=Dials()) as client:
        with pytest.raises(NotStarted, match="could not be reached") as failed:
            await client.request("POST", "http://site.test/")
    with port_of_nobody() as port:
        async with HttpClient(allow_private=True, ports="any") as client:
            with pytest.raises(NotStarted, match=r"^127\.0\.0\.1 could not be reached \(connection refused\)\."):
                await client.request("GET", f"http://127.0.0.1:{port}/")

    assert failed.value.executed is False
    assert PUBLIC not in str(failed.value)


async def test_a_server_that_never_answers_ends_at_the_time_limit():
    async def silent(asked):
        await asyncio.sleep(60)
        yield b""

    async with online(silent) as (_, client):
        with pytest.raises(TimedOut, match=r"longer than 0\.2 s"):
            await client.request("GET", "http://site.test/", timeout=0.2)
        with pytest.raises(TimedOut, match="did not answer in time"):
            await client.request("GET", "http://site.test/", read_timeout=0.1)
        assert not client._transport._pool.connections


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_server_that_never_reads_ends_at_the_time_limit(scheme):
    ended, tasks = asyncio.Event(), []

    async def deaf(reader, writer):
        tasks.append(asyncio.current_task())
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with HttpClient(allow_private=True, ports=[port], connect_timeout=0.2, read_timeout=0.2) as client:
        with pytest.raises((TimedOut, NotStarted), match="in time"):
            await client.request("POST", f"{scheme}://127.0.0.1:{port}/", body=bytes(20_000_000))
        assert not client._transport._pool.connections
    ended.set()
    await asyncio.gather(*tasks)
    server.close()
    await server.wait_closed()


async def test_a_name_that_is_never_found_ends_at_the_time_limit_of_the_connection():
    async def lost(host, port):
        await asyncio.sleep(60)

    async with HttpClient(resolver=lost, dialer=Dials(), connect_timeout=0.1) as client:
        with pytest.raises(NotStarted, match="in time"):
            await client.request("GET", "http://site.test/")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02",
        b"",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
    ],
)
async def test_a_response_that_is_not_http_is_reported_without_its_content(answer):
    async def say(asked):
        yield answer
        yield None

    async with online(say) as (_, client):
        with pytest.raises(Unavailable) as failed:
            await client.request("GET", "http://site.test/")

    assert "SSH" not in str(failed.value)


async def test_an_unrequested_upgrade_is_refused():
    async with online(lambda asked: reply(status=101, reason="Switching Protocols", content_length=None)) as (
        _,
        client,
    ):
        with pytest.raises(ToolError):
            await client.request("GET", "http://site.test/")


@pytest.mark.parametrize("name", ["allow_hosts", "deny_hosts", "allow_private", "ports", "verify"])
async def test_one_request_cannot_change_what_may_be_reached(name):
    async with HttpClient(dialer=(dials := Dials())) as client:
        with pytest.raises(TypeError, match=name):
            await client.request("GET", "http://1.1.1.1/", **{name: ()})

    assert dials.dialled == []


async def test_a_closed_client_refuses_requests():
    client = HttpClient()
    await client.aclose()
    await client.aclose()

    with pytest.raises(NotStarted, match="closed"):
        await client.request("GET", "http://site.test/")


async def test_socket_files_are_never_reached():
    from surehand.http.connector import Connector

    with pytest.raises(NotStarted):
        await Connector(HttpSettings().build_guard()).connect_unix_socket("/var/run/x.sock")


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"max_bytes": 0},
        {"max_redirects": -1},
        {"ports": [0]},
        {"ports": ["80"]},
        {"connect_timeout": 0},
        {"allow_hosts": [""]},
        {"deny_hosts": [1]},
        {"max_ratio": 0},
        {"allow_private": [""]},
        {"allow_private": None},
        {"allow_hosts": True},
        {"ports": 80},
    ],
)
def test_invalid_settings_are_definition_errors(wrong):
    with pytest.raises(DefinitionError):
        HttpClient(**wrong)


async def test_a_client_that_is_cancelled_leaves_no_connection():
    arrived = asyncio.Event()

    async def silent(asked):
        arrived.set()
        await asyncio.sleep(60)
        yield b""

    async with online(silent) as (_, client):
        task = asyncio.create_task(client.request("GET", "http://site.test/"))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not client._transport._pool.connections


async def test_parallel_requests_share_the_connections():
    async with online(lambda asked: reply(asked.path), max_connections=4) as (server, client):
        found = await asyncio.gather(*(client.request("GET", f"http://site.test/{n}") for n in range(100)))

    assert [response.body.decode() for response in found] == [f"/{n}" for n in range(100)]
    assert server.connections <= 4


async def test_nothing_secret_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    async with online(lambda asked: reply("x")) as (_, client):
        await client.request(
            "POST", "http://site.test/?key=canary", headers={"Authorization": "Bearer canary"}, body=b"canary"
        )

    assert "canary" not in caplog.text


def test_the_connector_has_the_methods_of_a_network_backend():
    from surehand.http.connector import Connector

    for name in vars(httpcore2.AsyncNetworkBackend):
        if not name.startswith("_"):
            assert hasattr(Connector, name)


async def test_an_endpoint_is_reached_on_a_private_address_and_an_odd_port_and_nothing_beside_it():
    async with serving(lambda asked: reply("in")) as server:
        dials = internet(server, a_10_0_0_1=server)
        names = Names(inside_test="10.0.0.1", site_test=PUBLIC)
        settings = HttpSettings(
            endpoints=[("inside.test", 9000), ("site.test", 9001)], resolver=names, dialer=dials, allow_hosts=["x.test"]
        )
        async with HttpClient(settings) as client:
            assert (await client.request("GET", "http://inside.test:9000/")).body == b"in"
            assert (await client.request("GET", "http://SITE.test:9001/")).body == b"in"
            for url in ("http://inside.test:9001/", "http://site.test/", "http://10.0.0.1:9000/", "http://other.test/"):
                with pytest.raises(Denied):
                    await client.request("GET", url)

    assert dials.dialled == [("10.0.0.1", 9000), (PUBLIC, 9001)]
