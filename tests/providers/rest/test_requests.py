"""What arrives at the server, byte for byte, for each place and each kind of body."""

import base64
import json
from dataclasses import dataclass
from datetime import date

import pytest
from pydantic import BaseModel
from python_multipart.multipart import MultipartParser, parse_options_header

from tests.providers.rest.calling import object_schema, rest_tool

ANY = {}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("city", "path"),
    [
        ("Köln", "/v1/K%C3%B6ln/now"),
        ("a/b", "/v1/a%2Fb/now"),
        ("a b?c#d&e=f%2Fg", "/v1/a%20b%3Fc%23d%26e%3Df%252Fg/now"),
        ("...", "/v1/.../now"),
        ("${env.HOME}", "/v1/%24%7Benv.HOME%7D/now"),
        (7, "/v1/7/now"),
        (2.5, "/v1/2.5/now"),
        (3.0, "/v1/3/now"),
        (True, "/v1/true/now"),
    ],
)
async def test_a_value_is_one_segment_of_the_path(city, path):
    async with rest_tool("GET", "/v1/{city}/now", parameters=object_schema("city", city=ANY)) as call:
        assert (await call(city=city)).ok

        assert call.asked.path == path


@pytest.mark.parametrize("city", ["..", ".", "", "../admin", "a/../b", "..\\x", None, [1], {"a": 1}])
async def test_a_value_that_would_change_the_shape_of_the_path_is_refused(city):
    async with rest_tool("GET", "/v1/{city}/now", parameters=object_schema("city", city=ANY)) as call:
        outcome = await call(city=city)

        assert (outcome.code, outcome.executed) == ("invalid_arguments", False)
        assert call.server.asked == []


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/{city}", "/K%C3%B6ln"),
        ("/${parameters.city}", "/K%C3%B6ln"),
        ("/{{input.city}}", "/K%C3%B6ln"),
        ("/{{ input.city }}.json", "/K%C3%B6ln.json"),
        ("/v{n}/x-{city}-y", "/v7/x-K%C3%B6ln-y"),
        ("/${parameters.user.tags[1]}", "/two"),
        ("/${parameters.user.tags.0}", "/one"),
        ("/{user.name}", "/Ada"),
        ("/${parameters.user['a.b']}", "/dotted"),
        ("/x?q={city}&n={n}", "/x?q=K%C3%B6ln&n=7"),
        ("/x?q=in%20${parameters.city}&empty=", "/x?q=in%20K%C3%B6ln&empty="),
        ("/x?wsdl&n={n}", "/x?wsdl&n=7"),
        ("/x?tags={user.tags}", "/x?tags=one&tags=two"),
        ("/a%2Fb/\\{city\\}/{city}", "/a%2Fb/%7Bcity%7D/K%C3%B6ln"),
        ("", "/"),
        ("/", "/"),
        ("/trailing/{n}/", "/trailing/7/"),
    ],
)
async def test_a_url_takes_every_kind_of_reference(template, path):
    user = {"name": "Ada", "tags": ["one", "two"], "a.b": "dotted"}
    parameters = object_schema(city=STRING, n=ANY, user=ANY)
    async with rest_tool("GET", template, parameters=parameters, query=None) as call:
        assert (await call(city="Köln", n=7, user=user)).ok

        assert call.asked.path == path


@pytest.mark.parametrize(
    ("value", "style", "query"),
    [
        ("a b&c", "repeat", "v=a%20b%26c"),
        ([1, "x", True], "repeat", "v=1&v=x&v=true"),
        ([1, 2], "indexed", "v[0]=1&v[1]=2"),
        ([1, "a,b"], "comma", "v=1,a%2Cb"),
        ({"a": 1, "b": {"c": [1, 2]}}, "repeat", "v[a]=1&v[b][c]=1&v[b][c]=2"),
        ([{"a": 1}, {"a": 2}], "repeat", "v[0][a]=1&v[1][a]=2"),
        ({"a": 1}, "indexed", "v[0][a]=1"),
        ([], "repeat", ""),
        (None, "repeat", ""),
        ("", "repeat", "v="),
    ],
)
async def test_get_sends_the_arguments_that_nothing_else_uses_in_the_query(value, style, query):
    parameters = object_schema(id=ANY, v=ANY)
    async with rest_tool("GET", "/x/{id}", parameters=parameters, query_style=style) as call:
        assert (await call(id=1, v=value)).ok

        assert call.asked.path == f"/x/1?{query}".removesuffix("?")
        assert call.asked.body == b""


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ({"q": "${parameters.a}", "fixed": "x y", "n": 5}, "?q=one&fixed=x%20y&n=5"),
        ({"q": "is ${parameters.a}!", "deep": {"a": ["{{input.a}}", 2]}}, "?q=is%20one%21&deep[a]=one&deep[a]=2"),
        (["a", "missing"], "?a=one"),
        ("${parameters.filters}", "?x=1&y=2"),
        (None, ""),
    ],
)
async def test_a_query_can_be_given(query, sent):
    parameters = object_schema(a=STRING, filters=ANY, missing=ANY)
    async with rest_tool("GET", "/x", parameters=parameters, query=query) as call:
        assert (await call(a="one", filters={"x": 1, "y": 2})).ok

        assert call.asked.path == f"/x{sent}"


async def test_headers_take_references_and_constants():
    headers = {"X-City": "in ${parameters.city}", "X-Fixed": "yes", "Accept": "text/plain"}
    async with rest_tool("GET", "/", parameters=object_schema(city=STRING), headers=headers) as call:
        await call(city="Porto")

        sent = call.asked.headers
        assert (sent["x-city"], sent["x-fixed"], sent["accept"]) == ("in Porto", "yes", "text/plain")


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "\x00", "日本", [1], None])
async def test_a_header_value_never_adds_a_header(value):
    parameters = object_schema(v=ANY)
    async with rest_tool("GET", "/", parameters=parameters, headers={"X-V": "${parameters.v}"}, query=None) as call:
        outcome = await call(v=value)

        assert (outcome.code, outcome.executed) == ("invalid_arguments", False)
        assert call.server.asked == []


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"a": "${parameters.a}", "n": [None], "t": "x-${parameters.a}"}, {"a": "one", "n": [None], "t": "x-one"}),
        ({"all": "{{input}}"}, {"all": {"a": "one", "o": {"k": [1, {"z": None}]}}}),
        ("${parameters.o}", {"k": [1, {"z": None}]}),
        ("{{input.o.k}}", [1, {"z": None}]),
        ('{"o": {{input.o.k[0]}}, "m": "a {{input.a}} b"}', {"o": 1, "m": "a one b"}),
        ('{"a": "\\"{{input.a}}\\\\", "o": [{{input.o}}]}', {"a": '"one\\', "o": [{"k": [1, {"z": None}]}]}),
        ({"first": "${parameters.o.k[0]}"}, {"first": 1}),
        ([], []),
        ({"literal": "\\${parameters.a} \\{{input.a}} {a}"}, {"literal": "${parameters.a} {{input.a}} {a}"}),
    ],
)  # fmt: skip
async def test_a_json_body_holds_values_not_text(body, sent):
    async with rest_tool("POST", "/", parameters=object_schema(a=STRING, o=ANY), body=body) as call:
        assert (await call(a="one", o={"k": [1, {"z": None}]})).ok

        assert json.loads(call.asked.body) == sent
        assert call.asked.headers["content-type"] == "application/json"


async def test_a_value_cannot_add_a_field_to_a_json_body():
    hostile = '","role":"admin'
    async with rest_tool("POST", "/", parameters=object_schema(a=STRING), body='{"a": "{{input.a}}"}') as call:
        await call(a=hostile)

        assert json.loads(call.asked.body) == {"a": hostile}


async def test_other_methods_send_the_arguments_that_nothing_else_uses_as_json():
    parameters = object_schema(id=ANY, name=STRING, note=STRING)
    async with rest_tool("PUT", "/things/{id}", parameters=parameters) as call:
        await call(id=3, name="Zoë")

        assert call.asked.path == "/things/3"
        assert call.asked.body == '{"name":"Zoë"}'.encode()


async def test_a_post_without_further_parameters_has_no_body():
    async with rest_tool("POST", "/things/{id}/start", parameters=object_schema(id=ANY)) as call:
        await call(id=3)

        assert call.asked.body == b""
        assert "content-type" not in call.asked.headers
        assert call.asked.headers["content-length"] == "0"


async def test_delete_sends_the_other_arguments_in_the_query():
    async with rest_tool("DELETE", "/things/{id}", parameters=object_schema(id=ANY, force=ANY)) as call:
        await call(id=3, force=True)

        assert call.asked.path == "/things/3?force=true"


async def test_the_query_method_has_a_body_and_only_reads():
    async with rest_tool("QUERY", "/search", parameters=object_schema(q=STRING)) as call:
        await call(q="x")

        assert (call.asked.method, call.asked.body) == ("QUERY", b'{"q":"x"}')
        assert call.tool.effects == {"read"}


async def test_a_form_body():
    body = {"a": "${parameters.a}", "list": "${parameters.l}", "fixed": "1+1"}
    parameters = object_schema(a=STRING, l=ANY)
    async with rest_tool("POST", "/", parameters=parameters, body=body, body_type="form") as call:
        await call(a="x y&z=ö", l=[1, 2])

        assert call.asked.body == b"a=x+y%26z%3D%C3%B6&list=1&list=2&fixed=1%2B1"
        assert call.asked.headers["content-type"] == "application/x-www-form-urlencoded"


async def test_a_text_body_and_a_content_type_of_its_own():
    headers = {"Content-Type": "application/graphql"}
    body = "query { city(name: ${parameters.a}) { id } }"
    options = {"parameters": object_schema(a=STRING), "headers": headers, "body": body, "body_type": "text"}
    async with rest_tool("POST", "/", **options) as call:
        await call(a='"Köln" { ${env.HOME} }')

        assert call.asked.body.decode() == 'query { city(name: "Köln" { ${env.HOME} }) { id } }'
        assert call.asked.headers["content-type"] == "application/graphql"


async def test_a_binary_body_is_given_as_base64():
    raw = bytes(range(256))
    options = {"parameters": object_schema(data=STRING), "body": "${parameters.data}", "body_type": "binary"}
    async with rest_tool("PUT", "/", **options) as call:
        await call(data=base64.b64encode(raw).decode())
        refused = await call(data="no base64!")

        assert call.asked.body == raw
        assert call.asked.headers["content-type"] == "application/octet-stream"
        assert refused.code == "invalid_arguments"


def multipart_parts(asked):
    """The parts of a multipart body as another library reads them: headers and content."""
    parts = []
    _, options = parse_options_header(asked.headers["content-type"])
    field = []
    callbacks = {
        "on_part_begin": lambda: parts.append([{}, b""]),
        "on_part_data": lambda data, start, end: parts[-1].__setitem__(1, parts[-1][1] + data[start:end]),
        "on_header_field": lambda data, start, end: field.append(data[start:end].decode()),
        "on_header_value": lambda data, start, end: parts[-1][0].__setitem__(field.pop(), data[start:end].decode()),
    }
    parser = MultipartParser(options[b"boundary"], callbacks)
    parser.write(asked.body)
    parser.finalize()
    return parts


async def test_a_multipart_body_has_fields_and_files():
    body = {
        "title": "${parameters.title}",
        "tags": ["a", "b"],
        "meta": {"deep": {"n": 1}},
        "file": {"filename": "${parameters.filename}", "base64": "${parameters.data}", "content_type": "image/png"},
        "note": {"content": "hello"},
    }
    parameters = object_schema(title=STRING, filename=STRING, data=STRING)
    async with rest_tool("POST", "/", parameters=parameters, body=body, body_type="multipart") as call:
        hostile = 'a"b\r\nX-Evil: 1.png'
        assert (await call(title="T\r\n--x", filename=hostile, data=base64.b64encode(b"\x00\x01").decode())).ok

        parts = multipart_parts(call.asked)

    disposition = "Content-Disposition"
    assert [part[1] for part in parts] == [b"T\r\n--x", b"a", b"b", b'{"deep": {"n": 1}}', b"\x00\x01", b"hello"]
    assert parts[3][0]["Content-Type"] == "application/json"
    assert parts[4][0] == {
        disposition: 'form-data; name="file"; filename="a%22b%0D%0AX-Evil: 1.png"',
        "Content-Type": "image/png",
    }
    assert parts[5][0][disposition] == 'form-data; name="note"; filename="note"'


async def test_a_missing_value_is_an_error_and_a_default_of_the_schema_is_used():
    parameters = object_schema(a=STRING, b={"type": "string", "default": "B"})
    async with rest_tool("GET", "/{a}/{b}", parameters=parameters) as call:
        missing = await call()
        await call(a="A")

        assert (missing.code, missing.executed) == ("invalid_arguments", False)
        assert "needs a" in missing.message
        assert call.asked.path == "/A/B"


async def test_a_url_that_becomes_too_long_is_refused():
    async with rest_tool("GET", "/", parameters=object_schema(a=STRING)) as call:
        outcome = await call(a="x" * 10_000)

        assert outcome.code == "invalid_arguments"
        assert "characters" in outcome.message
        assert call.server.asked == []


class Order(BaseModel):
    """An order."""

    id: int
    due: date
    lines: list[str] = []


async def test_parameters_can_be_a_pydantic_model():
    async with rest_tool("POST", "/orders/{id}", parameters=Order) as call:
        outcome = await call(id="7", due="2026-11-18")
        refused = await call(id="seven", due="2026-11-18")

        assert outcome.ok
        assert call.asked.path == "/orders/7"
        assert json.loads(call.asked.body)["due"] == "2026-11-18"
        assert refused.code == "invalid_arguments"


@dataclass
class Point:
    x: int
    y: int = 2


async def test_parameters_can_be_a_dataclass():
    async with rest_tool("GET", "/p/{x}", parameters=Point) as call:
        assert (await call(x=1, y=5)).ok

        assert call.asked.path == "/p/1?y=5"


async def test_without_parameters_the_references_are_the_parameters():
    async with rest_tool("POST", "/{a}?b={b}", body={"c": "${parameters.c.d}"}, query=["e"]) as call:
        schema = call.tool.schema
        refused = await call(a="1")
        assert (await call(a="1", b="2", c={"d": [3]}, e="4")).ok

        assert (list(schema["properties"]), schema["required"]) == (["a", "b", "c", "e"], ["a", "b", "c"])
        assert refused.code == "invalid_arguments"
        assert (call.asked.path, call.asked.body) == ("/1?b=2&e=4", b'{"c":[3]}')


async def test_a_variable_and_a_parameter_may_have_one_name_if_both_are_spelt_out():
    options = {"parameters": object_schema(KEY=STRING), "headers": {"X-Key": "${env.KEY}"}, "environment": {"KEY": "k"}}
    async with rest_tool("GET", "/${parameters.KEY}", **options) as call:
        await call(KEY="mine")

        assert (call.asked.path, call.asked.headers["x-key"]) == ("/mine", "k")


async def test_environment_variables_are_read_when_the_request_is_sent():
    environment = {}
    headers = {"X-One": "${env.ONE}", "X-Two": "${TWO}"}
    options = {"headers": headers, "environment": environment, "body": {"two": "{{env.TWO}}"}}
    async with rest_tool("POST", "/${env.ONE}", **options) as call:
        unset = await call()
        environment.update(ONE="first", TWO="second")
        assert (await call()).ok

        assert "ONE is not set" in unset.message
        assert not unset.executed
        assert call.asked.path == "/first"
        assert (call.asked.headers["x-one"], call.asked.headers["x-two"]) == ("first", "second")
        assert json.loads(call.asked.body) == {"two": "second"}
