"""The section `openapi`: every key, and mistakes with their line."""

import json

import pytest

from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from tests.http.server import serving
from tests.providers.openapi.api_server import document, ok, operation

DOCUMENT = document(
    {
        "/{region}/pets": {
            "get": operation(operationId="listPets", tags=["pets"], security=[{"key": []}]),
            "post": operation(operationId="addPet", tags=["pets"]),
        },
        "/dogs": {"get": operation(operationId="listDogs")},
    },
    components={"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
)


@pytest.fixture
def load(tmp_path):
    (tmp_path / "pets.json").write_text(json.dumps(DOCUMENT))

    def load(text, **environment):
        path = tmp_path / "surehand.yaml"
        path.write_text(text)
        return assemble(read_config(path), environment=environment)

    return load


async def test_every_key_does_what_it_says(load, tmp_path):
    async with serving(ok) as server:
        runtime = load(
            f"""
queues: {{slow: {{concurrent: 1}}}}
openapi:
  pets:
    spec: pets.json
    namespace: shop
    include: ["tag:pets"]
    exclude: [POST]
    server: http://127.0.0.1:{server.port}
    auth: {{key: "${{env.KEY}}"}}
    given: {{region: eu}}
    show: all
    queue: slow
    timeout: 3s
    required: true
    trusted_hosts: [api.example.com]
    lock: "pets.lock"
    on_conflict: rename
""",
            KEY="secret-key",
        )
        async with runtime:
            assert [listing.name for listing in runtime.catalogue] == ["shop__listPets"]
            assert (await runtime.call("shop__listPets", {})).ok
            [provider] = runtime.providers
            assert (provider.queue, provider.timeout, provider.required) == ("slow", 3.0, True)
            assert provider.options.trusted_hosts == {"api.example.com"}

        [asked] = server.asked
        assert (asked.path, asked.headers["x-key"]) == ("/eu/pets", "secret-key")
        assert "listPets" in (tmp_path / "pets.lock").read_text()


async def test_the_lock_file_beside_the_configuration_is_used_unless_it_is_off(load, tmp_path):
    for lock, exists in ((", lock: off", False), ("", True)):
        async with load(f"openapi: {{pets: {{spec: pets.json, server: 'http://127.0.0.1:9'{lock}}}}}"):
            assert (tmp_path / "surehand.lock").exists() is exists


async def test_keys_of_other_programs_are_understood(load):
    runtime = load(
        """
openapi:
  pets:
    {spec: pets.json, baseUrlOverride: "http://127.0.0.1:9", toolNamePrefix: p, includeMethods: [get], tagFilter: pets}
"""
    )
    async with runtime:
        assert [listing.name for listing in runtime.catalogue] == ["p__listPets"]


async def test_include_methods_leaves_out_methods_that_a_document_makes_up(load, tmp_path):
    item = {"get": operation(operationId="read"), "additionalOperations": {"PURGE": operation(operationId="purge")}}
    (tmp_path / "new.json").write_text(json.dumps(document({"/x": item}, "3.2.0")))
    text = "openapi: {new: {spec: new.json, server: 'http://127.0.0.1:9', includeMethods: [get]}}"
    async with load(text) as runtime:
        assert [listing.name for listing in runtime.catalogue] == ["new__read"]


async def test_the_http_settings_of_a_document_hold_for_its_requests(load):
    async with serving(ok) as server:
        entry = f"{{spec: pets.json, server: 'http://127.0.0.1:{server.port}', http: {{max_bytes: 5}}}}"
        async with load(f"openapi: {{pets: {entry}}}") as runtime:
            assert (await runtime.call("pets__listDogs", {})).code == "too_large"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("openapi: {pets: {}}", "pets has no document"),
        ("openapi: [pets.json]", "openapi must be a mapping"),
        ("openapi: {pets: {spec: pets.json, shwo: all}}", "did you mean 'show'"),
        ("openapi: {pets: {spec: pets.json, show: some}}", "show must be all, search or auto"),
        ("openapi: {pets: {spec: pets.json, server: nowhere}}", "cannot be used"),
        ("openapi: {pets: {spec: pets.json, queue: slow}}", "names the queue 'slow'"),
        ("openapi: {pets: {spec: pets.json, includeMethods: [fetch]}}", "fetch is no method"),
        ("openapi: {pets: {spec: pets.json, http: {maxByte: 1MB}}}", "did you mean 'max_bytes'"),
        ("openapi: {pets: {spec: pets.json, http: {ca_file: none.pem}}}", "none.pem cannot be read"),
    ],
)
def test_a_mistake_is_an_error_at_its_line(load, text, problem):
    with pytest.raises(ConfigError, match=problem) as caught:
        load(text)

    assert "surehand.yaml:1" in str(caught.value)
