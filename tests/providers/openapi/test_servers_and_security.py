"""Where requests go, and with which secrets."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from surehand import DefinitionError, Runtime
from surehand.providers.openapi.factory import openapi
from tests.http.server import reply, serving
from tests.providers.openapi.api_server import document, ok, operation, serving_api

PLAIN = {"/x": {"get": operation()}}


async def test_variables_of_a_server_have_defaults_and_given_values():
    async with serving(ok) as server:
        url = f"http://127.0.0.1:{server.port}/{{version}}/{{region}}"
        variables = {"version": {"default": "v1"}, "region": {"default": "eu"}}
        described = document(PLAIN, servers=[{"url": url, "variables": variables}])
        for options, path in (({}, "/v1/eu/x"), ({"server": {"region": "us"}}, "/v1/us/x")):
            async with Runtime(openapi(described, namespace="api", **options)) as runtime:
                await runtime.call("api__send", {})

                assert server.asked[-1].path == path


async def test_a_misspelt_variable_of_a_server_is_an_error_with_the_nearest_name():
    server = {"url": "https://{region}.api.example/{version}", "variables": {"region": {"default": "eu"}}}
    for paths, servers in ((PLAIN, [server]), ({"/x": {"servers": [server], "get": operation()}}, [])):
        provider = openapi(document(paths, servers=servers), namespace="api", server={"regoin": "us"}, required=True)
        with pytest.raises(DefinitionError, match=r"server has 'regoin'.*did you mean 'region'"):
            async with Runtime(provider):
                pass


async def test_a_variable_of_a_server_without_variables_is_an_error():
    described = document(PLAIN, servers=[{"url": "https://api.example"}])
    with pytest.raises(DefinitionError, match=r"server has 'region'.*remove it"):
        async with Runtime(openapi(described, namespace="api", server={"region": "us"}, required=True)):
            pass


async def test_an_operation_or_a_path_may_have_a_server_of_its_own():
    async with serving(ok) as other:
        own = [{"url": f"http://127.0.0.1:{other.port}/own/"}]
        described = document(
            {
                "/a": {"get": operation(operationId="a", servers=own)},
                "/b": {"servers": own, "get": operation(operationId="b")},
                "/c": {"get": operation(operationId="c")},
            }
        )
        async with serving_api(described) as api:
            for name in ("a", "b", "c"):
                assert (await api.call(name)).ok

            assert [asked.path for asked in other.asked] == ["/own/a", "/own/b"]
            assert [asked.path for asked in api.server.asked] == ["/c"]


async def test_a_server_of_the_developer_replaces_all_of_the_document():
    async with serving(ok) as server:
        described = document(
            {"/x": {"get": operation(servers=[{"url": "https://elsewhere.example"}])}},
            servers=[{"url": "https://nowhere.example"}],
        )
        async with Runtime(
            openapi(described, namespace="api", server=f"http://127.0.0.1:{server.port}/v2/")
        ) as runtime:
            assert (await runtime.call("api__send", {})).ok
            assert server.asked[-1].path == "/v2/x"


async def test_host_and_base_path_of_version_2_are_the_server():
    async with serving_api(document(PLAIN, "2.0", basePath="/v1/")) as api:
        assert (await api.send("send")).path == "/v1/x"


SCHEMES: dict[str, Any] = {
    "token": {"type": "http", "scheme": "bearer"},
    "login": {"type": "http", "scheme": "basic"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "oauth": {"type": "oauth2", "flows": {}},
    "custom": {"type": "http", "scheme": "Token"},
    "openid": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example"},
}
BASIC = b64encode(b"ada:secret-word").decode()


@pytest.mark.parametrize(
    ("scheme", "secret", "place", "expected"),
    [
        ("token", "secret-word", "authorization", "Bearer secret-word"),
        ("login", {"username": "ada", "password": "secret-word"}, "authorization", f"Basic {BASIC}"),
        ("header", "secret-word", "x-key", "secret-word"),
        ("query", "secret-word", "path", "/x?key=secret-word"),
        ("cookie", "secret-word", "cookie", "sid=secret-word"),
        ("oauth", "secret-word", "authorization", "Bearer secret-word"),
        ("custom", "secret-word", "authorization", "Token secret-word"),
        ("openid", "secret-word", "authorization", "Bearer secret-word"),
    ],
)
async def test_a_security_scheme_sends_its_secret_and_nothing_shows_it(scheme, secret, place, expected):
    described = document(PLAIN, security=[{scheme: []}], components={"securitySchemes": SCHEMES})

    def echo(asked: Any) -> bytes:
        return reply(json.dumps({"path": asked.path, **asked.headers}), content_type="application/json")

    async with serving_api(described, echo, auth={scheme: secret}) as api:
        outcome = await api.call("send")

        assert {"path": api.last.path, **api.last.headers}[place] == expected
        assert "secret-word" not in outcome.text
        assert BASIC not in outcome.text
        assert "secret-word" not in repr(api.provider.options)


async def test_a_secret_is_read_from_the_environment_when_it_is_sent(monkeypatch):
    described = document(PLAIN, security=[{"token": []}], components={"securitySchemes": SCHEMES})
    async with serving_api(described, auth={"token": "${env.API_TOKEN_OF_TEST}"}) as api:
        missing = await api.call("send")
        monkeypatch.setenv("API_TOKEN_OF_TEST", "late-secret")
        sent = await api.send("send")

        assert "API_TOKEN_OF_TEST" in missing.message
        assert sent.headers["authorization"] == "Bearer late-secret"


async def test_the_first_alternative_whose_secrets_are_all_there_is_sent():
    described = document(
        {
            "/x": {"get": operation(security=[{"login": []}, {"header": [], "query": []}, {"token": []}])},
            "/open": {"get": operation(operationId="open", security=[])},
        },
        security=[{"token": []}],
        components={"securitySchemes": SCHEMES},
    )
    async with serving_api(described, auth={"header": "h-secret", "query": "q-secret", "token": "t-secret"}) as api:
        sent = await api.send("send")
        assert (sent.headers["x-key"], sent.path) == ("h-secret", "/x?key=q-secret")
        assert "authorization" not in sent.headers

        assert "authorization" not in (await api.send("open")).headers


async def test_a_client_fetches_its_token_where_the_document_says():
    async with serving(
        lambda asked: reply('{"access_token": "fetched-token"}', content_type="application/json")
    ) as tokens:
        flow = {"tokenUrl": f"http://127.0.0.1:{tokens.port}/token", "scopes": {}}
        schemes = {"oauth": {"type": "oauth2", "flows": {"clientCredentials": flow}}}
        described = document(PLAIN, security=[{"oauth": []}], components={"securitySchemes": schemes})
        auth = {"oauth": {"client_id": "app", "client_secret": "client-secret"}}
        async with serving_api(described, auth=auth) as api:
            assert (await api.send("send")).headers["authorization"] == "Bearer fetched-token"
            assert len(tokens.asked) == 1


async def test_an_unknown_scheme_is_a_mistake_of_the_developer():
    described = document(PLAIN, servers=[{"url": "https://a.example"}], components={"securitySchemes": SCHEMES})

    with pytest.raises(DefinitionError, match="did you mean 'token'"):
        async with Runtime(openapi(described, auth={"tokn": "x"})):
            pass


async def test_security_definitions_of_version_2_are_read():
    schemes = {"login": {"type": "basic"}, "key": {"type": "apiKey", "in": "query", "name": "k"}}
    described = document(PLAIN, "2.0", securityDefinitions=schemes, security=[{"login": [], "key": []}])
    auth = {"login": {"username": "ada", "password": "secret-word"}, "key": "key-secret"}
    async with serving_api(described, auth=auth) as api:
        sent = await api.send("send")

        assert (sent.path, sent.headers["authorization"]) == ("/x?k=key-secret", f"Basic {BASIC}")
