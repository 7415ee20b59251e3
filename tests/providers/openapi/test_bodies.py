"""Every kind of body, as it arrives at a server."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from tests.providers.openapi.api_server import document, operation, serving_api, with_body, with_parameter

ADDRESS = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "at": {}},
}


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/vnd.acme.v2+json",
        "application/merge-patch+json",
        "application/x-json",
    ],
)
async def test_a_json_body_keeps_its_nulls_and_its_media_type(media_type):
    schema = {"type": "object", "properties": {"a": {"nullable": True}, "b": {}, "c": {"type": "string"}}}
    async with serving_api(with_body(media_type, schema)) as api:
        sent = await api.send("send", {"a": None, "b": [1, None, {"x": 1.5}], "c": "ü"})

        assert sent.body == '{"a":null,"b":[1,null,{"x":1.5}],"c":"ü"}'.encode()
        assert sent.headers["content-type"] == media_type


@pytest.mark.parametrize(
    ("schema", "value", "body"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], b"[1,2]"),
        ({"type": "string"}, "x", b'"x"'),
        ({"type": "boolean"}, False, b"false"),
        ({"type": "object", "additionalProperties": True}, {"any": 1}, b'{"any":1}'),
        ({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]}, {"a": 1}, b'{"a":1}'),
    ],
)
async def test_a_body_that_has_no_fixed_fields_is_one_argument(schema, value, body):
    async with serving_api(with_body("application/json", schema, version="3.1.0")) as api:
        sent = await api.send("send", {"body": value})

        assert sent.body == body


async def test_a_form_repeats_the_names_of_lists_and_writes_objects_as_json():
    async with serving_api(with_body("application/x-www-form-urlencoded", ADDRESS)) as api:
        sent = await api.send("send", {"name": "a b&c", "tags": ["x", "y"], "at": {"zip": 1}})

        assert sent.body == b"name=a+b%26c&tags=x&tags=y&at=%7B%22zip%22%3A1%7D"
        assert sent.headers["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ({"style": "deepObject", "explode": True}, b"at[zip]=1&at[geo][lat]=2"),
        ({"style": "form", "explode": True}, b"zip=1&geo=%7B%22lat%22%3A2%7D"),
        ({"style": "form", "explode": False}, b"at=zip,1,geo,%7B%22lat%22%3A2%7D"),
        ({"contentType": "application/json"}, b"at=%7B%22zip%22%3A1%2C%22geo%22%3A%7B%22lat%22%3A2%7D%7D"),
    ],
)
async def test_a_field_of_a_form_is_written_as_its_encoding_says(encoding, body):
    described = with_body("application/x-www-form-urlencoded", ADDRESS, encoding={"at": encoding})
    async with serving_api(described) as api:
        sent = await api.send("send", {"at": {"zip": 1, "geo": {"lat": 2}}})

        assert sent.body == body


@pytest.mark.parametrize(
    ("encoding", "value", "body"),
    [
        ({"style": "form", "explode": True}, ["a b", "c=d"], b"tags=a+b&tags=c%3Dd"),
        ({"style": "form", "explode": False}, ["a b", "c,d"], b"tags=a+b,c%2Cd"),
        ({"style": "spaceDelimited", "explode": False}, ["a", "b c"], b"tags=a%20b+c"),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b|c"], b"tags=a|b%7Cc"),
        ({"style": "pipeDelimited", "explode": True}, ["a", "b"], b"tags=a&tags=b"),
        ({"allowReserved": True}, ["a/b?c:d", "&#+="], b"tags=a/b?c:d&tags=%26%23%2B="),
        ({"style": "deepObject"}, ["a", "b"], b"tags[0]=a&tags[1]=b"),
    ],
)
async def test_a_list_of_a_form_is_written_in_the_style_of_its_encoding(encoding, value, body):
    described = with_body("application/x-www-form-urlencoded", ADDRESS, encoding={"tags": encoding})
    async with serving_api(described) as api:
        sent = await api.send("send", {"tags": value})

        assert sent.body == body


@pytest.mark.parametrize("encoding", [{}, {"style": "form"}, {"contentType": "image/png"}, {"allowReserved": True}])
async def test_a_file_in_a_form_keeps_every_byte(encoding, tmp_path):
    content = bytes(range(256))
    (tmp_path / "raw.bin").write_bytes(content)
    schema = {"type": "object", "properties": {"f": {"type": "string", "format": "binary"}}}
    described = with_body("application/x-www-form-urlencoded", schema, encoding={"f": encoding})
    async with serving_api(described, runtime={"workspace": str(tmp_path)}) as api:
        sent = await api.send("send", {"f": "raw.bin"})

        name, _, written = sent.body.partition(b"=")
        assert name == b"f"
        assert unquote_to_bytes(written.replace(b"+", b" ")) == content
        assert b"%FF" in written


async def test_a_list_of_a_form_without_explode_is_one_value():
    described = with_body("application/x-www-form-urlencoded", ADDRESS, encoding={"tags": {"explode": False}})
    async with serving_api(described) as api:
        sent = await api.send("send", {"tags": ["a,b", "c"]})

        assert sent.body == b"tags=a%2Cb,c"


def parts(sent: Any) -> list[tuple[str, bytes]]:
    """Head and content of each part of a multipart body."""
    boundary = re.fullmatch(r"multipart/form-data; boundary=(\S+)", sent.headers["content-type"])
    assert boundary is not None
    pieces = sent.body.split(f"--{boundary[1]}".encode())
    assert pieces[0] == b""
    assert pieces[-1] == b"--\r\n"
    split = [piece.removeprefix(b"\r\n").removesuffix(b"\r\n").partition(b"\r\n\r\n") for piece in pieces[1:-1]]
    return [(head.decode(), content) for head, _, content in split]


UPLOAD = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "count": {"type": "integer"},
        "meta": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


async def test_a_multipart_body_has_files_with_their_names_and_types(tmp_path):
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x00")
    (tmp_path / 'a"b.txt').write_text("text")
    described = with_body("multipart/form-data", UPLOAD)
    async with serving_api(described, runtime={"workspace": str(tmp_path)}) as api:
        sent = await api.send(
            "send", {"file": "cat.png", "more": ['a"b.txt'], "count": 2, "meta": {"a": None}, "tags": ["x", "y"]}
        )

        assert parts(sent) == [
            (
                'Content-Disposition: form-data; name="file"; filename="cat.png"\r\nContent-Type: image/png',
                b"\x89PNG\r\n\x00",
            ),
            (
                'Content-Disposition: form-data; name="more"; filename="a%22b.txt"\r\nContent-Type: text/plain',
                b"text",
            ),
            ('Content-Disposition: form-data; name="count"', b"2"),
            ('Content-Disposition: form-data; name="meta"\r\nContent-Type: application/json', b'{"a":null}'),
            ('Content-Disposition: form-data; name="tags"', b"x"),
            ('Content-Disposition: form-data; name="tags"', b"y"),
        ]


@pytest.mark.parametrize(
    ("encoding", "value", "expected"),
    [
        ({"style": "form", "explode": True}, ["a b", "c"], [("l", b"a b"), ("l", b"c")]),
        ({"style": "form", "explode": False}, ["a b", "c"], [("l", b"a b,c")]),
        ({"style": "spaceDelimited", "explode": False}, ["a", "b"], [("l", b"a b")]),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b%"], [("l", b"a|b%")]),
        ({"style": "deepObject"}, {"a b": "x=y", "n": {"\u00fc": 1}}, [("l[a b]", b"x=y"), ("l[n][\u00fc]", b"1")]),
        ({"style": "form", "explode": True}, {"a=b": "x", "c": None}, [("a=b", b"x")]),
        ({"style": "form", "explode": False}, {"a=b": "x&"}, [("l", b"a=b,x&")]),
        ({"style": "form"}, "a=b&c", [("l", b"a=b&c")]),
    ],
)
async def test_names_and_values_of_a_multipart_body_are_not_percent_encoded(encoding, value, expected):
    described = with_body("multipart/form-data", {"type": "object", "properties": {"l": {}}}, encoding={"l": encoding})
    async with serving_api(described) as api:
        sent = await api.send("send", {"l": value})

        heads = [f'Content-Disposition: form-data; name="{name}"' for name, _ in expected]
        assert parts(sent) == list(zip(heads, [content for _, content in expected], strict=True))


async def test_a_field_name_with_an_equals_sign_stays_one_name():
    schema = {"type": "object", "properties": {"a=b": {"type": "array", "items": {"type": "string"}}}}
    described = with_body("multipart/form-data", schema, encoding={"a=b": {"style": "form"}})
    async with serving_api(described) as api:
        sent = await api.send("send", {"a=b": ["x"]})

        assert parts(sent) == [('Content-Disposition: form-data; name="a=b"', b"x")]


@pytest.mark.parametrize("name", ['a"; x="b.txt', "a\r\nX-Evil: 1.txt", "ä ü.txt", "a%22.txt"])
async def test_a_file_name_stays_the_name_of_its_part(name, tmp_path):
    (tmp_path / name).write_text("content")
    async with serving_api(with_body("multipart/form-data", UPLOAD), runtime={"workspace": str(tmp_path)}) as api:
        sent = await api.send("send", {"file": name})

        [(head, content)] = parts(sent)
        escaped = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        assert head.splitlines() == [
            f'Content-Disposition: form-data; name="file"; filename="{escaped}"',
            "Content-Type: text/plain",
        ]
        assert content == b"content"


@pytest.mark.parametrize("content_type", ["text/plain\r\nX-Evil: 1", "text/plain\nX-Evil: 1", "\x00"])
async def test_the_content_type_of_a_part_never_adds_a_header(content_type):
    encoding = {"count": {"contentType": content_type}}
    described = with_body("multipart/form-data", {"type": "object", "properties": {"count": {}}}, encoding=encoding)
    async with serving_api(described) as api:
        sent = await api.send("send", {"count": 1})

        assert parts(sent) == [('Content-Disposition: form-data; name="count"', b"1")]


async def test_the_encoding_of_a_part_sets_its_type_and_headers(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"\x00")
    encoding = {
        "file": {"contentType": "image/png, image/jpeg", "headers": {"X-Kind": {"schema": {"enum": ["photo"]}}}},
        "count": {"contentType": "application/json"},
    }
    described = with_body("multipart/form-data", UPLOAD, encoding=encoding)
    async with serving_api(described, runtime={"workspace": str(tmp_path)}) as api:
        sent = await api.send("send", {"file": "data.bin", "count": 1})

        assert [head for head, _ in parts(sent)] == [
            (
                'Content-Disposition: form-data; name="file"; filename="data.bin"\r\n'
                "Content-Type: image/png\r\nX-Kind: photo"
            ),
            'Content-Disposition: form-data; name="count"\r\nContent-Type: application/json',
        ]


async def test_a_binary_body_is_a_file_of_the_workspace(tmp_path):
    (tmp_path / "raw.bin").write_bytes(bytes(range(256)))
    described = with_body("application/octet-stream", {"type": "string", "format": "binary"}, method="put")
    async with serving_api(described, runtime={"workspace": str(tmp_path)}) as api:
        sent = await api.send("send", {"body": "raw.bin"})

        assert sent.body == bytes(range(256))
        assert sent.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "missing.bin", ".env"])
async def test_a_file_outside_the_workspace_or_with_credentials_is_not_sent(tmp_path, path):
    root = tmp_path / "root"
    root.mkdir()
    (root / ".env").write_text("KEY=1")
    (tmp_path / "secret").write_text("s")
    described = with_body("application/octet-stream", {"type": "string", "format": "binary"})
    async with serving_api(described, runtime={"workspace": str(root)}) as api:
        outcome = await api.call("send", {"body": path})

        assert not outcome.ok
        assert not outcome.executed
        assert api.server.asked == []


async def test_a_stored_output_is_sent_by_its_handle():
    described = with_body("application/octet-stream", {"type": "string", "format": "binary"})
    async with serving_api(described, runtime={"store": ":memory:"}) as api:
        store = api.runtime.store
        assert store is not None
        fields = {"tool": "t", "reason": "size", "user": None, "session": None, "call_id": "c", "created_at": 1.0}
        fields |= {"bytes": 5, "lines": 1}
        await store.artifacts.save("0123456789abcdef", "hello", **await _known_fields(store, fields))
        sent = await api.send("send", {"body": "0123456789abcdef"})

        assert sent.body == b"hello"


async def _known_fields(store: Any, fields: dict[str, Any]) -> dict[str, Any]:
    from surehand.store.tables.artifacts import ArtifactFields

    return {name: value for name, value in fields.items() if name in ArtifactFields.__annotations__}


@pytest.mark.parametrize(
    ("media_type", "value", "body"), [("text/plain", "a\nü", "a\nü".encode()), ("application/xml", "<a/>", b"<a/>")]
)
async def test_a_text_body_is_sent_as_it_is(media_type, value, body):
    async with serving_api(with_body(media_type, {"type": "string"})) as api:
        sent = await api.send("send", {"body": value})

        assert sent.body == body
        assert sent.headers["content-type"] == media_type


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/plain; charset=iso-8859-1", "\u00fcber".encode("latin-1")),
        ('text/plain; charset="ISO-8859-1"', "\u00fcber".encode("latin-1")),
        ("text/plain;charset=utf-16le", "\u00fcber".encode("utf-16-le")),
        ("text/plain; charset=UTF-8", "\u00fcber".encode()),
        ("application/xml; charset=windows-1252", "\u00fcber".encode("cp1252")),
    ],
)
async def test_a_text_is_sent_in_the_charset_that_is_declared(media_type, body):
    async with serving_api(with_body(media_type, {"type": "string"})) as api:
        sent = await api.send("send", {"body": "\u00fcber"})

        assert sent.body == body
        assert sent.headers["content-type"] == media_type


@pytest.mark.parametrize(
    ("charset", "text"), [("iso-8859-1", "\u20ac"), ("x-unknown", "\u00fc"), ("punycode", "\u00fc")]
)
async def test_a_character_that_the_declared_charset_does_not_have_is_refused(charset, text):
    async with serving_api(with_body(f"text/plain; charset={charset}", {"type": "string"})) as api:
        outcome = await api.call("send", {"body": text})

        assert (outcome.code, outcome.executed, api.server.asked) == ("invalid_arguments", False, [])
        assert charset in outcome.message
        assert text in outcome.message
        assert (await api.send("send", {"body": "plain"})).body == b"plain"


async def test_json_is_ascii_where_another_charset_is_declared():
    async with serving_api(with_body("application/json; charset=iso-8859-1", {"type": "string"})) as api:
        assert (await api.send("send", {"body": "\u00fc"})).body == b'"\\u00fc"'


async def test_a_part_is_sent_in_the_charset_that_its_encoding_declares():
    encoding = {"l": {"contentType": "text/plain; charset=iso-8859-1"}}
    described = with_body("multipart/form-data", {"type": "object", "properties": {"l": {}}}, encoding=encoding)
    async with serving_api(described) as api:
        [(head, content)] = parts(await api.send("send", {"l": "\u00fc"}))

        assert head.endswith("Content-Type: text/plain; charset=iso-8859-1")
        assert content == b"\xfc"


async def test_json_lines_are_one_line_for_each_item():
    described = with_body("application/x-ndjson", {"type": "array", "items": {}})
    async with serving_api(described) as api:
        sent = await api.send("send", {"body": [{"a": 1}, 2]})

        assert sent.body == b'{"a":1}\n2\n'


async def test_a_delete_may_have_a_body():
    schema = {"type": "object", "properties": {"reason": {"type": "string"}}}
    async with serving_api(with_body("application/json", schema, method="delete")) as api:
        sent = await api.send("send", {"reason": "old"})

        assert (sent.method, sent.body) == ("DELETE", b'{"reason":"old"}')


async def test_json_is_sent_if_an_operation_takes_several_media_types():
    described = with_body("multipart/form-data", ADDRESS)
    content = described["paths"]["/x"]["post"]["requestBody"]["content"]
    content |= {"application/xml": {"schema": ADDRESS}, "application/json": {"schema": ADDRESS}}
    async with serving_api(described) as api:
        assert (await api.send("send", {"name": "a"})).headers["content-type"] == "application/json"


async def test_an_optional_body_is_left_out_but_not_sent_by_halves():
    schema = {"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}}
    described = with_body("application/json", schema)
    described["paths"]["/x"]["post"]["requestBody"]["required"] = False
    async with serving_api(described) as api:
        assert (await api.send("send")).body == b""
        assert (await api.send("send", {"a": 1})).body == b'{"a":1}'
        assert (await api.call("send", {"b": 1})).code == "invalid_arguments"


async def test_a_required_body_without_fields_is_an_empty_object():
    async with serving_api(with_body("application/json", ADDRESS)) as api:
        assert (await api.send("send")).body == b"{}"


async def test_form_data_of_version_2_is_a_form_or_multipart_if_it_has_a_file(tmp_path):
    (tmp_path / "f.txt").write_text("x")
    form = [
        {"name": "a", "in": "formData", "type": "string", "required": True},
        {"name": "l", "in": "formData", "type": "array", "items": {"type": "string"}, "collectionFormat": "pipes"},
    ]
    file = {"name": "f", "in": "formData", "type": "file"}
    described = document(
        {
            "/form": {"post": operation(operationId="form", parameters=form)},
            "/file": {"post": operation(operationId="file", parameters=[*form, file])},
        },
        "2.0",
    )
    async with serving_api(described, runtime={"workspace": str(tmp_path)}) as api:
        plain = await api.send("form", {"a": "1", "l": ["x", "y"]})
        with_file = await api.send("file", {"a": "1", "f": "f.txt"})

        assert plain.body == b"a=1&l=x|y"
        assert [content for _, content in parts(with_file)] == [b"1", b"x"]


FORMATS = [
    ("csv", b"c=a,b", [b"a,b"]),
    (None, b"c=a,b", [b"a,b"]),
    ("ssv", b"c=a%20b", [b"a b"]),
    ("tsv", b"c=a%09b", [b"a\tb"]),
    ("pipes", b"c=a|b", [b"a|b"]),
    ("multi", b"c=a&c=b", [b"a", b"b"]),
]


@pytest.mark.parametrize(("collection_format", "form", "multipart"), FORMATS)
async def test_a_collection_format_of_form_data_is_written_as_it_says(collection_format, form, multipart):
    parameter = {"name": "c", "in": "formData", "type": "array", "items": {"type": "string"}}
    if collection_format:
        parameter["collectionFormat"] = collection_format
    described = document(
        {
            "/form": {"post": operation(operationId="form", parameters=[parameter])},
            "/parts": {
                "post": operation(operationId="parts", parameters=[parameter], consumes=["multipart/form-data"])
            },
        },
        "2.0",
    )
    async with serving_api(described) as api:
        assert (await api.send("form", {"c": ["a", "b"]})).body == form
        assert [content for _, content in parts(await api.send("parts", {"c": ["a", "b"]}))] == multipart


async def test_a_body_of_any_type_is_json():
    async with serving_api(with_body("*/*", {"type": "object", "properties": {"a": {}}})) as api:
        sent = await api.send("send", {"a": 1})

        assert (sent.body, sent.headers["content-type"]) == (b'{"a":1}', "application/json")


async def test_a_body_of_items_is_a_list_of_them():
    described = with_body("application/jsonl", {}, version="3.2.0", itemSchema={"type": "integer"})
    del described["paths"]["/x"]["post"]["requestBody"]["content"]["application/jsonl"]["schema"]
    async with serving_api(described) as api:
        assert (await api.send("send", {"body": [1, 2]})).body == b"1\n2\n"
        assert (await api.call("send", {"body": ["x"]})).code == "invalid_arguments"


async def test_a_body_of_version_2_is_json():
    body = {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    described = with_parameter(method="post", version="2.0", **body)
    described["definitions"] = {"Pet": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}
    async with serving_api(described) as api:
        sent = await api.send("send", {"n": 1})

        assert (sent.body, sent.headers["content-type"]) == (b'{"n":1}', "application/json")


async def test_read_only_fields_are_not_asked_for_and_write_only_fields_are():
    schema = {
        "type": "object",
        "required": ["id", "secret"],
        "properties": {"id": {"type": "string", "readOnly": True}, "secret": {"type": "string", "writeOnly": True}},
    }
    async with serving_api(with_body("application/json", schema)) as api:
        sent = await api.send("send", {"secret": "s"})

        assert sent.body == b'{"secret":"s"}'
        assert list(api.schema("send")["properties"]) == ["secret"]
        assert (await api.call("send", {"secret": "s", "id": "1"})).code == "invalid_arguments"
