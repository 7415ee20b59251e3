"""Secrets go only to hosts that the developer named: a fetched document cannot choose where they are sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surehand import Runtime
from surehand.core.errors import DefinitionError
from surehand.providers.openapi.document import Document, SourceFile
from surehand.providers.openapi.factory import openapi
from surehand.providers.openapi.provider import OpenApiProvider
from surehand.providers.openapi.servers import parse_base
from surehand.providers.openapi.trusted_hosts import find_trusted_hosts
from tests.http.server import PUBLIC, Names, Server, internet, redirect, reply, serving
from tests.providers.openapi.api_server import document, operation

SECRET = "s3cr3t-token-value"
SCHEMES = {
    "token": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "query", "name": "key"},
    "client": {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": "http://other.test/token", "scopes": {}}},
    },
}


def secured(*servers: str, **more: Any) -> dict[str, Any]:
    """A document with one operation that needs a token, and one that needs none."""
    paths = {
        "/a": {"get": operation(operationId="a", security=[{"token": []}], **more)},
        "/open": {"get": operation(operationId="open", security=[])},
    }
    return document(paths, servers=[{"url": each} for each in servers], components={"securitySchemes": SCHEMES})


@asynccontextmanager
async def fetched(root: dict[str, Any], **options: Any) -> AsyncIterator[tuple[Runtime, OpenApiProvider, Server]]:
    """A runtime with a document at docs.test; every name leads to one server, which sees all requests."""

    def answer(asked: Any) -> bytes:
        if asked.path == "/moved.json":
            return redirect("http://other.test/openapi.json")
        return reply(json.dumps(root if asked.path == "/openapi.json" else {}), content_type="application/json")

    async with serving(answer) as server:
        names = Names(docs_test=PUBLIC, other_test="1.1.1.1")
        dials = internet(server, a_1_1_1_1=server)
        provider = openapi(
            options.pop("url", "http://docs.test/openapi.json"),
            namespace="api",
            required=True,
            http={"resolver": names, "dialer": dials},
            **{"auth": {"token": SECRET}, **options},
        )
        async with Runtime(provider) as runtime:
            yield runtime, provider, server


def receivers(server: Server) -> list[str]:
    """The hosts that were sent the secret."""
    return [asked.headers["host"] for asked in server.asked if SECRET in str((asked.headers, asked.path, asked.body))]


async def test_secrets_are_sent_to_the_host_of_the_document():
    async with fetched(secured("/v1")) as (runtime, _, server):
        assert (await runtime.call("api__a", {})).ok

        assert receivers(server) == ["docs.test"]


async def test_a_fetched_document_that_sends_secrets_to_another_host_is_refused():
    with pytest.raises(DefinitionError) as refused:
        async with fetched(secured("http://other.test/v1")):
            pass

    assert "sends the secrets of `auth` to http://other.test, which no option names" in str(refused.value)
    assert 'give server="http://other.test/v1" or trusted_hosts=["other.test"]' in str(refused.value)


@pytest.mark.parametrize("options", [{"server": "http://other.test"}, {"trusted_hosts": "other.test"}])
async def test_a_developer_may_name_the_other_host(options):
    async with fetched(secured("http://other.test"), **options) as (runtime, _, server):
        assert (await runtime.call("api__a", {})).ok

        assert receivers(server) == ["other.test"]


async def test_without_secrets_a_fetched_document_may_lead_to_any_public_host():
    async with fetched(secured("http://other.test"), auth={}) as (runtime, _, server):
        assert (await runtime.call("api__a", {})).ok

        assert server.asked[-1].headers["host"] == "other.test"


async def test_an_operation_with_a_foreign_server_of_its_own_costs_itself_alone():
    root = secured("/v1", servers=[{"url": "http://other.test"}])
    async with fetched(root) as (runtime, provider, server):
        assert [listing.name for listing in runtime.catalogue] == ["api__open"]
        [(label, reason)] = provider.skipped
        await runtime.call("api__open", {})

        assert (label, "http://other.test, which no option names" in reason) == ("GET /a", True)
        assert receivers(server) == []


async def test_the_host_that_a_document_is_redirected_to_is_not_the_developers_choice():
    with pytest.raises(DefinitionError, match=r"which no option names"):
        async with fetched(secured("/v1"), url="http://docs.test/moved.json"):
            pass


async def test_a_fetched_document_does_not_choose_where_the_secret_of_a_client_goes():
    client = {"client_id": "me", "client_secret": SECRET}
    with pytest.raises(DefinitionError, match=r"sends the client secret to http://other\.test/token"):
        async with fetched(secured("/v1"), auth={"client": client}):
            pass

    named = {"client": {**client, "token_url": "http://other.test/token"}}
    async with fetched(secured("/v1"), auth=named) as (runtime, _, _):
        assert (await runtime.call("api__open", {})).ok


async def test_given_values_are_not_sent_to_a_host_that_only_the_document_names():
    parameters = [{"name": "tenant", "in": "query", "schema": {"type": "string"}}]
    root = secured("http://other.test", parameters=parameters)
    async with fetched(root, auth={}, given={"tenant": SECRET}) as (runtime, provider, server):
        refused = await runtime.call("api__a", {})

        assert not refused.ok
        assert "tenant of `given` to other.test" in refused.message
        assert provider.skipped[0][0] == "GET /a"
        assert receivers(server) == []


async def test_a_file_or_dictionary_is_the_developers_own(tmp_path):
    path = tmp_path / "api.json"
    root = secured("https://anywhere.example")
    path.write_text(json.dumps(root))
    for source in (path, root):
        async with Runtime(openapi(source, namespace="api", required=True, auth={"token": SECRET})) as runtime:
            assert len(runtime.catalogue) == 2


@pytest.mark.parametrize(
    ("server", "is_trusted"),
    [
        ("https://docs.example/v1", True),
        ("https://docs.example:8443", True),
        ("http://docs.example", False),  # without TLS anybody on the way could read them
        ("https://api.docs.example", False),
        ("https://docs.example.evil.example", False),
        ("https://listed.example", True),
        ("https://given.example:444", True),
    ],
)
def test_secrets_stay_with_the_named_hosts_and_with_tls(server, is_trusted):
    fetched_document = Document(
        SourceFile({}), (3, 1), url="https://docs.example/a.json", requested_url="https://docs.example/a.json"
    )
    trusted = find_trusted_hosts(fetched_document, ["https://given.example", ""], frozenset({"listed.example"}))

    assert trusted.may_receive_secrets(parse_base(server)) is is_trusted


@pytest.mark.parametrize("written", ["https://api.example.com", "api.example.com/x", "", "a b"])
def test_a_trusted_host_that_is_no_host_name_is_a_mistake(written):
    with pytest.raises(DefinitionError, match=r"trusted_hosts"):
        openapi("api.json", trusted_hosts=[written])
