"""Reading documents: forms, versions, references, names, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surehand import DefinitionError, Runtime
from surehand.providers.openapi.factory import openapi
from tests.http.server import reply, serving
from tests.providers.openapi.api_server import document, operation, serving_api, with_body, with_parameter

YAML = """
openapi: 3.0.3
info: {title: Pets, version: 1.0}
servers: [{url: "https://pets.example"}]
paths:
  /pets:
    get:
      operationId: listPets
      parameters:
        - {name: kind, in: query, schema: {type: string, enum: [on, off, 2020-01-01]}}
      responses: {200: {description: fine}}
"""


async def test_a_yaml_file_is_read_as_json_would_mean_it(tmp_path):
    path = tmp_path / "pets.yaml"
    path.write_text(YAML)
    async with Runtime(openapi(path)) as runtime:
        listing = runtime.catalogue.find("pets__listPets")

        assert listing is not None
        assert listing.tool.schema["properties"]["kind"]["enum"] == ["on", "off", "2020-01-01"]


async def test_a_json_file_may_refer_to_files_beside_it(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "pet.yaml").write_text(
        "Pet: {type: object, properties: {owner: {$ref: 'owner.json#/Owner'}}}"
    )
    (tmp_path / "parts" / "owner.json").write_text('{"Owner": {"type": "string", "maxLength": 3}}')
    root = with_body("application/json", {"$ref": "parts/pet.yaml#/Pet"})
    path = tmp_path / "api.json"
    path.write_text(json.dumps(root | {"servers": [{"url": "https://a.example"}]}))
    async with Runtime(openapi(path, namespace="api")) as runtime:
        schema = runtime.catalogue.find("api__send").tool.schema  # type: ignore[union-attr]

        assert schema["$defs"]["Owner"] == {"type": "string", "maxLength": 3}
        assert (await runtime.call("api__send", {"owner": "long"})).code == "invalid_arguments"


@pytest.mark.parametrize(
    "ref",
    [
        "https://schemas.example/pet",
        "https://schemas.example/pet#/$defs/Name",
        "https://schemas.example/pet#",
        "https://api.example/openapi.json#/components/schemas/Pet",
    ],
)
async def test_an_identifier_of_the_same_document_is_no_other_host(ref):
    name = {"type": "string", "maxLength": 5}
    pet = {"$id": "https://schemas.example/pet", **name, "$defs": {"Name": name}}
    parameter = {"name": "n", "in": "query", "schema": {"$ref": ref}}
    root = document({"/x": {"get": operation(parameters=[parameter])}}, "3.2.0", components={"schemas": {"Pet": pet}})
    async with serving_api(root | {"$self": "https://api.example/openapi.json"}) as api:
        assert api.provider.skipped == []
        assert (await api.call("send", {"n": "too long"})).code == "invalid_arguments"
        assert (await api.call("send", {"n": "short"})).ok


@pytest.mark.parametrize(
    "ref",
    [
        "../outside.json#/X",
        "/etc/passwd",
        "https://127.0.0.1:9/x.json#/X",
        "missing.json#/X",
        "a%00b.json#/X",
        "#/servers/" + "9" * 5_000,
        "#/servers/\u0661",
    ],
)
async def test_a_reference_out_of_the_folder_or_to_a_host_costs_its_operation(tmp_path, ref):
    (tmp_path / "outside.json").write_text('{"X": {"type": "string"}}')
    folder = tmp_path / "api"
    folder.mkdir()
    root = document(
        {
            "/bad": {
                "post": operation(
                    operationId="bad", requestBody={"content": {"application/json": {"schema": {"$ref": ref}}}}
                )
            },
            "/good": {"get": operation(operationId="good")},
        },
        servers=[{"url": "https://a.example"}],
    )
    (folder / "api.json").write_text(json.dumps(root))
    provider = openapi(folder / "api.json", namespace="api")
    async with Runtime(provider) as runtime:
        assert [listing.name for listing in runtime.catalogue] == ["api__good"]
        [(label, reason)] = provider.skipped
        assert label == "POST /bad"
        assert ref[:40] in reason


async def test_a_document_is_fetched_from_a_url_and_nothing_else_is():
    root = with_body("application/json", {"$ref": "other.json#/X"})
    root["paths"]["/ok"] = {"get": operation(operationId="ok")}
    async with serving(lambda asked: reply(json.dumps(root), content_type="application/json")) as server:
        provider = openapi(f"http://127.0.0.1:{server.port}/v1/openapi.json", namespace="api")
        async with Runtime(provider) as runtime:
            await runtime.call("api__ok", {})

            assert [asked.path for asked in server.asked] == ["/v1/openapi.json", "/ok"]
            assert [label for label, _ in provider.skipped] == ["POST /x"]


async def test_a_relative_server_is_below_the_url_of_the_document():
    root = document({"/ok": {"get": operation()}}, servers=[{"url": "/base"}])
    async with serving(lambda asked: reply(json.dumps(root), content_type="application/json")) as server:
        provider = openapi(f"http://127.0.0.1:{server.port}/openapi.json", namespace="api")
        async with Runtime(provider) as runtime:
            await runtime.call("api__send", {})

            assert server.asked[-1].path == "/base/ok"


async def test_a_document_without_a_server_needs_one():
    root = document({"/ok": {"get": operation()}})

    with pytest.raises(DefinitionError, match=r"names no server.*server="):
        async with Runtime(openapi(root)):
            pass


@pytest.mark.parametrize("version", ["1.2", "4.0.0", None])
async def test_another_version_is_refused(version):
    with pytest.raises(DefinitionError, match=r"2\.0, 3\.0, 3\.1 or 3\.2"):
        async with Runtime(openapi({"openapi": version, "paths": {}})):
            pass


async def test_version_3_2_has_the_method_query_and_further_ones():
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"q": {}}}}}}
    item = {
        "query": operation(operationId="find", requestBody=body),
        "additionalOperations": {"PURGE": operation(operationId="purge")},
    }
    async with serving_api(document({"/x": item}, "3.2.0")) as api:
        found = await api.send("find", {"q": 1})
        assert (found.method, found.body) == ("QUERY", b'{"q":1}')
        assert (await api.send("purge")).method == "PURGE"

        effects = {name: api.runtime.catalogue.find(f"api__{name}").tool.effects for name in api.names()}  # type: ignore[union-attr]
        assert effects == {"find": {"read"}, "purge": {"write"}}


def paths_with(definitions: dict[str, Any]) -> dict[str, Any]:
    return document({f"/{name}": {"get": definition} for name, definition in definitions.items()})


async def test_one_broken_operation_costs_itself_alone():
    described = document(
        {
            "/fine": {"get": operation(operationId="fine")},
            "/a": {"get": operation(parameters=[{"in": "query"}])},
            "/b": {"get": operation(parameters=[{"name": "x", "in": "nowhere"}])},
            "/c": {"get": operation(parameters=[{"$ref": "#/components/parameters/missing"}])},
            "/d": {
                "post": operation(
                    requestBody={"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Deep"}}}}
                )
            },
            "/e": {"get": "text"},
            "/f": "text",
            "/g": {"get": operation(parameters="text")},
            "/h": {"post": operation(requestBody={})},
            "/i": {"get": operation(parameters=[{"$ref": "#/components/parameters/loop"}])},
        },
        components={
            "schemas": {"Deep": {"properties": {"a": {"items": {"$ref": "#/components/schemas/Gone"}}}}},
            "parameters": {"loop": {"$ref": "#/components/parameters/loop"}},
        },
    )
    async with serving_api(described) as api:
        assert api.names() == ["fine"]
        assert (await api.call("fine")).ok
        assert sorted(label for label, _ in api.provider.skipped) == [
            *("/f", "GET /a", "GET /b", "GET /c", "GET /e", "GET /g", "GET /i", "POST /d", "POST /h")
        ]
        assert all(reason.endswith(".") for _, reason in api.provider.skipped)


async def test_names_are_unique_legal_and_at_most_64_characters():
    described = document(
        {
            "/pets": {"get": operation(operationId="same"), "post": operation(operationId="same")},
            "/pets/{id}": {"get": {"responses": {}}, "delete": operation(operationId="Pets.remove one")},
            "/long": {"get": operation(operationId="x" * 200), "post": operation(operationId="x" * 200)},
            "/case": {"get": operation(operationId="SAME_CASE"), "post": operation(operationId="same_case")},
            "/__": {"get": operation(operationId="a__b")},
        }
    )
    async with serving_api(described) as api:
        names = api.names()

        assert len(set(names)) == len(names) == 9
        assert all(len(f"api__{name}") <= 64 and "__" not in name for name in names)
        assert {"get_pets_id", "Pets_remove_one", "a_b"} <= set(names)
        assert "same" not in names  # each of the two has a hash of its method and path


async def test_a_name_depends_neither_on_the_order_nor_on_a_filter():
    described = document({"/a": {"get": operation(operationId="same")}, "/b": {"get": operation(operationId="same")}})
    turned = described | {"paths": dict(reversed(described["paths"].items()))}
    async with serving_api(described) as one, serving_api(turned) as other, serving_api(turned, include="/b") as third:
        assert set(one.names()) == set(other.names())
        assert set(third.names()) < set(one.names())


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"include": ["GET"]}, ["listPets", "listDogs"]),
        ({"include": "get"}, ["listPets", "listDogs"]),
        ({"include": ["/pets*"]}, ["listPets", "addPet", "removePet"]),
        ({"include": ["tag:dogs"]}, ["listDogs"]),
        ({"include": ["addPet", "tag:dogs"]}, ["addPet", "listDogs"]),
        ({"include": ["list*"]}, ["listPets", "listDogs"]),
        ({"exclude": ["DELETE", "tag:dogs"]}, ["listPets", "addPet"]),
        ({"include": ["/pets*"], "exclude": ["POST"]}, ["listPets", "removePet"]),
    ],
)
async def test_operations_are_chosen_by_method_path_tag_and_id(options, names):
    described = document(
        {
            "/pets": {"get": operation(operationId="listPets"), "post": operation(operationId="addPet")},
            "/pets/{id}": {"delete": operation(operationId="removePet")},
            "/dogs": {"get": operation(operationId="listDogs", tags=["dogs"])},
        }
    )
    async with serving_api(described, **options) as api:
        assert api.names() == names

        left_out = {"listPets", "addPet", "removePet", "listDogs"} - set(names)
        outcome = await api.call(min(left_out))
        assert outcome.code == "denied"
        assert "include or exclude" in outcome.message


async def test_a_path_variable_that_is_not_described_is_a_required_text():
    async with serving_api(document({"/x/{id}": {"get": operation()}})) as api:
        assert (await api.send("send", {"id": "a b"})).path == "/x/a%20b"
        assert (await api.call("send")).code == "invalid_arguments"


async def test_the_fragment_of_a_path_is_not_sent_and_its_query_is():
    described = document(
        {"/x#Action=A": {"get": operation(operationId="a")}, "/x?Action=B": {"get": operation(operationId="b")}}
    )
    async with serving_api(described) as api:
        assert (await api.send("a")).path == "/x"
        assert (await api.send("b")).path == "/x?Action=B"


async def test_parameters_of_the_path_are_shared_and_those_of_the_operation_win():
    item = {
        "parameters": [{"name": "a", "in": "query", "schema": {}}, {"name": "b", "in": "query", "schema": {}}],
        "get": operation(parameters=[{"name": "b", "in": "query", "schema": {"type": "integer"}}]),
    }
    async with serving_api(document({"/x": item})) as api:
        assert api.schema("send")["properties"] == {"a": {}, "b": {"type": "integer"}}


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "not JSON"), ("- a", "not an object"), ("a: [", "neither JSON nor YAML")]
)
async def test_a_file_that_is_no_document_is_refused(tmp_path, text, problem):
    path = tmp_path / "api.yaml"
    path.write_text(text)

    with pytest.raises(DefinitionError, match=problem):
        async with Runtime(openapi(path)):
            pass


async def test_yaml_that_expands_without_end_is_refused(tmp_path):
    lines = ["a0: &a0 {k0: 1, k1: 2}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 30))]
    path = tmp_path / "api.yaml"
    path.write_text("\n".join(["openapi: 3.0.0", "paths: {}", *lines]))

    with pytest.raises(DefinitionError, match="merge keys"):
        async with Runtime(openapi(path)):
            pass


async def test_a_missing_file_is_named():
    with pytest.raises(DefinitionError, match=r"nowhere\.json cannot be read"):
        async with Runtime(openapi("nowhere.json")):
            pass


async def test_a_parameter_that_the_specification_ignores_is_not_asked_for():
    described = with_parameter(name="Authorization", schema={"type": "string"}, required=True, **{"in": "header"})
    async with serving_api(described) as api:
        assert api.schema("send")["properties"] == {}
        assert (await api.call("send")).ok


async def test_an_operation_whose_id_is_a_method_is_chosen_by_it():
    described = document({"/a": {"post": operation(operationId="get")}, "/b": {"post": operation(operationId="other")}})
    async with serving_api(described, include="get") as api:
        assert api.names() == ["get"]


async def test_the_content_of_a_parameter_in_another_file_refers_to_that_file(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    media = {"schema": {"$ref": "#/Filter"}}
    (folder / "media.json").write_text(json.dumps({"media": media, "Filter": {"type": "string", "maxLength": 3}}))
    content = {"application/json": {"$ref": "parts/media.json#/media"}}
    parameters = [{"name": "filter", "in": "query", "content": content}]
    root = document(
        {"/a": {"get": operation(operationId="a", parameters=parameters)}}, servers=[{"url": "https://a.example"}]
    )
    path = tmp_path / "api.json"
    path.write_text(json.dumps(root))
    async with Runtime(openapi(path, namespace="api")) as runtime:
        assert (await runtime.call("api__a", {"filter": "long"})).code == "invalid_arguments"


async def test_a_fetched_document_does_not_lead_to_another_private_host():
    async with serving(lambda asked: reply("{}", content_type="application/json")) as other:
        target = f"http://127.0.0.1:{other.port}"
        root = document({"/a": {"get": operation(operationId="a")}}, servers=[{"url": target}])
        async with serving(lambda asked: reply(json.dumps(root), content_type="application/json")) as server:
            url = f"http://127.0.0.1:{server.port}/openapi.json"
            async with Runtime(openapi(url, namespace="api")) as runtime:
                refused = await runtime.call("api__a", {})
                reached = len(other.asked)
            async with Runtime(openapi(url, namespace="api", server=target)) as runtime:
                allowed = await runtime.call("api__a", {})

    assert (refused.code, reached) == ("denied", 0)
    assert allowed.ok
