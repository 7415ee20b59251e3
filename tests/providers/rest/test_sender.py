"""Requests leave through the one HTTP client: which hosts are reached, and what stays secret."""

import asyncio

import pytest

from surehand.core.errors import ToolError
from surehand.http.request import StreamedBody, build_request
from surehand.http.target import parse_target
from surehand.providers.rest.auth import parse_auth
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.secrets import SentSecrets
from surehand.providers.rest.sender import RestSender
from tests.http.server import PUBLIC, Names, internet, redirect, reply, serving
from tests.providers.rest.sending import exchanging

SECRET = "s3cr3t-Canary/+value"


def echo(asked):
    return reply(f'{{"path": "{asked.path}"}}', content_type="application/json")


async def test_a_private_host_that_a_developer_wrote_down_is_reached():
    async with exchanging(echo) as exchange:
        done = await exchange.send("/a?b=%20c")

    assert done.data == {"path": "/a?b=%20c"}


async def test_another_port_of_the_same_private_host_is_not_reached():
    async with (
        serving(echo) as other,
        exchanging(lambda asked: redirect(f"http://127.0.0.1:{other.port}/x")) as exchange,
    ):
        with pytest.raises(ToolError) as refused:
            await exchange.send()

    assert refused.value.code == "denied"
    assert other.asked == []


@pytest.mark.parametrize("location", ["http://169.254.169.254/latest", "http://[::1]/", "http://inside.test/"])
async def test_a_redirect_cannot_lead_to_the_inside(location):
    async with serving(lambda asked: redirect(location)) as server:
        dials = internet(server)
        names = Names(api_test=PUBLIC, inside_test="10.0.0.1")
        async with RestSender([parse_target("https://api.test")], http={"resolver": names, "dialer": dials}) as sender:
            with pytest.raises(ToolError):
                await sender.send(build_request("GET", "http://api.test:80/"), ResponseReader(), lambda _: None)

    assert dials.dialled == [(PUBLIC, 80)]


async def test_a_host_that_resolves_to_the_metadata_service_is_refused_though_it_was_written_down():
    names = Names(api_test="169.254.169.254")
    dials = internet()
    target = parse_target("http://api.test/")
    async with RestSender([target], http={"resolver": names, "dialer": dials}) as sender:
        with pytest.raises(ToolError) as refused:
            await sender.send(build_request("GET", target), ResponseReader(), lambda _: None)

    assert refused.value.code == "denied"
    assert dials.dialled == []


async def test_credentials_do_not_follow_a_redirect_to_another_host():
    answers = iter([redirect("http://other.test/x"), reply("there")])
    async with serving(lambda asked: next(answers)) as server:
        names = Names(api_test=PUBLIC, other_test="1.1.1.1")
        dials = internet(server, a_1_1_1_1=server)
        target = parse_target("http://api.test/")
        async with RestSender([target], http={"resolver": names, "dialer": dials}) as sender:
            request = build_request("GET", target)
            await sender.send(request, ResponseReader(), lambda _: None, auth=parse_auth({"api_key": SECRET}))

    assert [SECRET in str(asked.headers) for asked in server.asked] == [True, False]


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (SECRET, "authorization", f"Bearer {SECRET}"),
        ({"bearer": "${env.TOKEN}"}, "authorization", f"Bearer {SECRET}"),
        ({"bearer": "${TOKEN}"}, "authorization", f"Bearer {SECRET}"),
        ({"username": "ada", "password": "${env.SHORT}"}, "authorization", "Basic YWRhOnB3"),
        (("ada", "pw"), "authorization", "Basic YWRhOnB3"),
        ({"basic": {"username": "ada", "password": "pw"}}, "authorization", "Basic YWRhOnB3"),
        ({"api_key": "${env.TOKEN}"}, "x-api-key", SECRET),
        ({"api_key": "k-${env.SHORT}", "header": "X-Other"}, "x-other", "k-pw"),
        ({"api_key": "a b;c", "cookie": "sid"}, "cookie", "sid=a%20b%3Bc"),
        ([{"bearer": "t0ken"}, {"api_key": "k3y", "header": "X-Key"}], "x-key", "k3y"),
    ],
)
async def test_authentication_is_added_when_a_request_is_sent(auth, header, value):
    async with exchanging(echo, environment={"TOKEN": SECRET, "SHORT": "pw"}) as exchange:
        await exchange.send(auth=parse_auth(auth))

    assert exchange.server.asked[0].headers[header] == value


async def test_an_api_key_in_the_query_is_percent_encoded():
    async with exchanging(echo) as exchange:
        await exchange.send("/x?a=1", auth=parse_auth({"api_key": "a&b=c", "query": "k y"}))

    assert exchange.server.asked[0].path == "/x?a=1&k%20y=a%26b%3Dc"


async def test_a_variable_that_is_not_set_is_an_error_and_nothing_is_sent():
    async with exchanging(echo, environment={}) as exchange:
        with pytest.raises(ToolError, match="TOKEN is not set") as failed:
            await exchange.send(auth=parse_auth({"bearer": "${env.TOKEN}"}))

    assert not failed.value.executed
    assert exchange.server.asked == []


def token_server(asked_tokens, *, expires_in=3600, refuse=()):
    """A service whose token endpoint counts; `refuse` holds tokens that the service itself refuses."""

    def answer(asked):
        if asked.path == "/token":
            asked_tokens.append(asked)
            return reply(f'{{"access_token": "token-{len(asked_tokens)}", "expires_in": {expires_in}}}')
        token = asked.headers["authorization"].removeprefix("Bearer ")
        return reply("no", 401, "Unauthorized") if token in refuse else reply(token, content_type="text/plain")

    return answer


def client_credentials(exchange, **more):
    fields = {"token_url": f"{exchange.url}/token", "client_id": "me", "client_secret": SECRET, **more}
    return parse_auth({"oauth2": fields})


async def test_many_callers_share_one_request_for_an_access_token():
    tokens = []
    async with exchanging(token_server(tokens)) as exchange:
        auth = client_credentials(exchange, scope="read write", audience="x")
        answers = await asyncio.gather(*(exchange.send(auth=auth) for _ in range(20)))

    assert len(tokens) == 1
    assert tokens[0].body == b"grant_type=client_credentials&scope=read+write&audience=x"
    assert tokens[0].headers["authorization"].startswith("Basic ")
    assert {answer.data for answer in answers} == {"[redacted]"}


async def test_client_id_and_secret_can_be_sent_in_the_body():
    tokens = []
    async with exchanging(token_server(tokens)) as exchange:
        await exchange.send(auth=client_credentials(exchange, client_auth="body"))

    assert b"client_id=me&client_secret=s3cr3t-Canary%2F%2Bvalue" in tokens[0].body
    assert "authorization" not in tokens[0].headers


async def test_an_expired_access_token_is_fetched_again():
    tokens = []
    async with exchanging(token_server(tokens, expires_in=0)) as exchange:
        auth = client_credentials(exchange)
        await exchange.send(auth=auth)
        await exchange.send(auth=auth)

    assert len(tokens) == 2


async def test_an_access_token_that_the_service_refuses_is_replaced_once():
    tokens = []
    async with exchanging(token_server(tokens, refuse={"token-1", "token-3", "token-4"})) as exchange:
        auth = client_credentials(exchange)
        await exchange.send(auth=auth)
        assert len(tokens) == 2

    async with exchanging(token_server(tokens, refuse={"token-3", "token-4"})) as exchange:
        with pytest.raises(ToolError, match="HTTP 401"):
            await exchange.send(auth=client_credentials(exchange))

    assert len(tokens) == 4


@pytest.mark.parametrize("shown", range(1, 22, 5))
async def test_a_secret_at_the_place_where_the_answer_of_a_token_endpoint_is_cut_is_masked(shown):
    padding = "x" * (300 - len("invalid_client ") - shown)

    def answer(asked):
        return reply(f'{{"error": "invalid_client", "error_description": "{padding}{SECRET}"}}', 400, "Bad Request")

    async with exchanging(answer) as exchange:
        with pytest.raises(ToolError, match="invalid_client") as failed:
            await exchange.send(auth=client_credentials(exchange))

    assert SECRET[:4] not in str(failed.value)


async def test_a_token_endpoint_that_refuses_says_why_and_shows_no_secret():
    def answer(asked):
        return reply(f'{{"error": "invalid_client", "error_description": "bad {SECRET}"}}', 400, "Bad Request")

    async with exchanging(answer) as exchange:
        with pytest.raises(ToolError, match="invalid_client") as failed:
            await exchange.send(auth=client_credentials(exchange))

    assert SECRET not in str(failed.value)
    assert not failed.value.executed


async def test_a_caller_that_is_cancelled_leaves_the_token_to_the_next():
    asked_token = asyncio.Event()
    go_on = asyncio.Event()
    requests = []

    def answer(asked):
        if asked.path != "/token":
            return reply("ok")
        requests.append(asked)

        async def pieces():
            asked_token.set()
            await go_on.wait()
            yield reply('{"access_token": "later"}')

        return pieces()

    async with exchanging(answer) as exchange:
        auth = client_credentials(exchange)
        first = asyncio.create_task(exchange.send(auth=auth))
        await asked_token.wait()
        second = asyncio.create_task(exchange.send(auth=auth))
        await asyncio.sleep(0)
        first.cancel()
        go_on.set()
        assert (await second).data == "ok"

    assert len(requests) == 2


@pytest.mark.parametrize("encode", [str, lambda s: s.replace("/", "\\/"), lambda s: "czNjcjN0LUNhbmFyeS8rdmFsdWU="])
async def test_secrets_that_come_back_are_masked(encode):
    body = f'{{"you sent": "{encode(SECRET)}", "list": ["{encode(SECRET)}"]}}'
    async with exchanging(lambda asked: reply(body, content_type="application/json")) as exchange:
        done = await exchange.send(auth=parse_auth({"bearer": SECRET}))
    async with exchanging(lambda asked: reply(body, 400, "Bad", content_type="application/json")) as exchange:
        with pytest.raises(ToolError) as failed:
            await exchange.send(auth=parse_auth({"bearer": SECRET}))

    assert "[redacted]" in done.text
    assert encode(SECRET) not in done.text + str(failed.value) + str(failed.value.data)


async def test_user_names_and_client_ids_are_no_secrets():
    body = '{"user": "adminuser", "kind": "bearer"}'
    auth = [{"username": "adminuser", "password": "pa55word"}]
    async with exchanging(lambda asked: reply(body, content_type="application/json")) as exchange:
        done = await exchange.send(auth=parse_auth(auth))

    assert done.data == {"user": "adminuser", "kind": "bearer"}


async def test_an_attachment_that_holds_a_secret_is_refused():
    async with exchanging(lambda asked: reply(b"\x00" + SECRET.encode(), content_type="image/png")) as exchange:
        with pytest.raises(ToolError, match="holds a secret"):
            await exchange.send(auth=parse_auth({"bearer": SECRET}))


def test_of_very_many_secrets_those_that_were_used_last_are_masked():
    secrets = SentSecrets({"KEY": "the-key-itself"})
    for number in range(1000):
        secrets.variable("KEY")
        secrets.remember(f"access-token-{number}")

    masked = secrets.redactor("the-key-itself access-token-999 access-token-0 access-token-950")

    assert masked == "[redacted] [redacted] access-token-0 [redacted]"


def test_a_preview_shows_the_whole_request_with_secrets_masked():
    sender = RestSender([], environment={"TOKEN": SECRET})
    auth = parse_auth([{"api_key": "${env.TOKEN}", "query": "key"}, {"username": "ada", "password": SECRET}])
    request = build_request("POST", "https://api.test/x?a=1", {"X-One": "1"}, b'{"city": "\xc3\x96lm"}')

    preview = sender.preview(request, auth=auth)

    assert preview == (
        'POST https://api.test/x?a=1&key=[redacted]\nX-One: 1\nAuthorization: Basic [redacted]\n\n{"city": "Ölm"}'
    )


def test_a_preview_of_a_request_without_its_variable_is_an_error():
    sender = RestSender([], environment={})

    with pytest.raises(ToolError, match="TOKEN is not set"):
        sender.preview(build_request("GET", "https://api.test/"), auth=parse_auth({"bearer": "${env.TOKEN}"}))


def test_secrets_are_not_in_the_repr_of_an_auth():
    auth = parse_auth({"oauth2": {"token_url": "https://a.test/t", "client_id": "me", "client_secret": SECRET}})

    assert SECRET not in repr([auth, parse_auth(SECRET), parse_auth({"username": "u", "password": SECRET})])


async def test_a_streamed_body_is_sent_piece_by_piece():
    async def chunks():
        yield b"abc"
        yield b"defg"

    async with exchanging(echo) as exchange:
        await exchange.send("/up", "PUT", body=StreamedBody(chunks, 7))

    asked = exchange.server.asked[0]
    assert asked.body == b"abcdefg"
    assert asked.headers["content-length"] == "7"


async def test_a_timeout_ends_a_request_that_gets_no_answer():
    async def never(asked):
        await asyncio.Event().wait()
        yield b""

    async with exchanging(never) as exchange:
        with pytest.raises(ToolError) as failed:
            await exchange.send(timeout=0.05)

    assert failed.value.code == "timed_out"
