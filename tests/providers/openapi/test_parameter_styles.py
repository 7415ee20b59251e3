"""Every style of a parameter, as it arrives at a server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.openapi.api_server import document, operation, serving_api, with_body, with_parameter

LIST = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}
ANY: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("style", "explode", "value", "segment"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, LIST, "blue,black,brown"),
        ("simple", True, LIST, "blue,black,brown"),
        ("simple", False, RGB, "R,100,G,200,B,150"),
        ("simple", True, RGB, "R=100,G=200,B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, LIST, ".blue,black,brown"),
        ("label", True, LIST, ".blue.black.brown"),
        ("label", False, RGB, ".R,100,G,200,B,150"),
        ("label", True, RGB, ".R=100.G=200.B=150"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, "", ";color"),
        ("matrix", False, LIST, ";color=blue,black,brown"),
        ("matrix", True, LIST, ";color=blue;color=black;color=brown"),
        ("matrix", False, RGB, ";color=R,100,G,200,B,150"),
        ("matrix", True, RGB, ";R=100;G=200;B=150"),
    ],
)
async def test_a_path_parameter_is_written_in_its_style(style, explode, value, segment):
    described = with_parameter(
        "/x/{color}", name="color", required=True, style=style, explode=explode, schema=ANY, **{"in": "path"}
    )
    async with serving_api(described) as api:
        sent = await api.send("send", {"color": value})

        assert sent.path == f"/x/{segment}"


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("form", True, "blue", "color=blue"),
        ("form", True, "", "color="),
        ("form", True, LIST, "color=blue&color=black&color=brown"),
        ("form", False, LIST, "color=blue,black,brown"),
        ("form", True, RGB, "R=100&G=200&B=150"),
        ("form", False, RGB, "color=R,100,G,200,B,150"),
        ("spaceDelimited", False, LIST, "color=blue%20black%20brown"),
        ("spaceDelimited", True, LIST, "color=blue&color=black&color=brown"),
        ("spaceDelimited", False, RGB, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, LIST, "color=blue|black|brown"),
        ("pipeDelimited", True, LIST, "color=blue&color=black&color=brown"),
        ("pipeDelimited", False, RGB, "color=R|100|G|200|B|150"),
        ("deepObject", True, RGB, "color[R]=100&color[G]=200&color[B]=150"),
        ("deepObject", True, {"a": {"b": {"c": 1}}, "d": [1, 2]}, "color[a][b][c]=1&color[d][0]=1&color[d][1]=2"),
    ],
)
async def test_a_query_parameter_is_written_in_its_style(style, explode, value, query):
    described = with_parameter(name="color", style=style, explode=explode, schema=ANY, **{"in": "query"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"color": value})

        assert sent.path == f"/x?{query}"


async def test_form_with_explode_is_the_default_of_a_query_and_simple_that_of_a_path():
    described = with_parameter("/x/{a}", name="a", required=True, schema=ANY, **{"in": "path"})
    described["paths"]["/x/{a}"]["get"]["parameters"].append({"name": "b", "in": "query", "schema": ANY})
    async with serving_api(described) as api:
        sent = await api.send("send", {"a": [1, 2], "b": [1, 2]})

        assert sent.path == "/x/1,2?b=1&b=2"


@pytest.mark.parametrize(
    ("collection_format", "query"),
    [
        ("csv", "c=a,b"),
        (None, "c=a,b"),
        ("ssv", "c=a%20b"),
        ("tsv", "c=a%09b"),
        ("pipes", "c=a|b"),
        ("multi", "c=a&c=b"),
    ],
)
async def test_a_collection_format_of_version_2_is_written_as_it_says(collection_format, query):
    parameter = {"name": "c", "in": "query", "type": "array", "items": {"type": "string"}}
    if collection_format:
        parameter["collectionFormat"] = collection_format
    async with serving_api(with_parameter(version="2.0", **parameter)) as api:
        sent = await api.send("send", {"c": ["a", "b"]})

        assert sent.path == f"/x?{query}"


@pytest.mark.parametrize(
    ("collection_format", "segment"),
    [("csv", "a,b"), (None, "a,b"), ("ssv", "a%20b"), ("tsv", "a%09b"), ("pipes", "a|b"), ("multi", "a,b")],
)
async def test_a_collection_format_in_the_path_is_written_as_it_says(collection_format, segment):
    parameter = {"name": "c", "in": "path", "required": True, "type": "array", "items": {"type": "string"}}
    if collection_format:
        parameter["collectionFormat"] = collection_format
    async with serving_api(with_parameter("/x/{c}", version="2.0", **parameter)) as api:
        sent = await api.send("send", {"c": ["a", "b"]})

        assert sent.path == f"/x/{segment}"


@pytest.mark.parametrize(
    ("collection_format", "text"),
    [("csv", "a,b c"), (None, "a,b c"), ("ssv", "a b c"), ("tsv", "a\tb c"), ("pipes", "a|b c"), ("multi", "a,b c")],
)
async def test_a_collection_format_in_a_header_is_written_as_it_says(collection_format, text):
    parameter = {"name": "X-C", "in": "header", "type": "array", "items": {"type": "string"}}
    if collection_format:
        parameter["collectionFormat"] = collection_format
    async with serving_api(with_parameter(version="2.0", **parameter)) as api:
        sent = await api.send("send", {"X-C": ["a", "b c"]})

        assert sent.headers["x-c"] == text


@pytest.mark.parametrize(
    ("explode", "value", "text"),
    [
        (True, LIST, "blue,black,brown"),
        (False, "blue", "blue"),
        (False, LIST, "blue,black,brown"),
        (False, RGB, "R,100,G,200,B,150"),
        (True, RGB, "R=100,G=200,B=150"),
        (False, "a b/c%", "a b/c%"),
        (False, True, "true"),
    ],
)
async def test_a_header_is_written_in_the_simple_style_and_not_encoded(explode, value, text):
    described = with_parameter(name="X-Color", explode=explode, schema=ANY, **{"in": "header"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"X-Color": value})

        assert sent.headers["x-color"] == text


@pytest.mark.parametrize(
    ("style", "explode", "value", "text"),
    [
        ("form", True, "blue", "color=blue"),
        ("form", False, LIST, "color=blue,black,brown"),
        ("form", True, LIST, "color=blue&color=black&color=brown"),
        ("form", False, RGB, "color=R,100,G,200,B,150"),
        ("form", True, RGB, "R=100&G=200&B=150"),
        ("form", True, "a;b c", "color=a%3Bb%20c"),
    ],
)
async def test_a_cookie_is_written_in_its_style(style, explode, value, text):
    described = with_parameter(name="color", style=style, explode=explode, schema=ANY, **{"in": "cookie"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"color": value})

        assert sent.headers["cookie"] == text


async def test_the_cookie_style_of_version_3_2_is_sent_as_it_is_and_two_cookies_share_a_header():
    described = with_parameter(version="3.2.0", name="a", style="cookie", schema=ANY, **{"in": "cookie"})
    described["paths"]["/x"]["get"]["parameters"].append({"name": "b", "in": "cookie", "schema": ANY})
    async with serving_api(described) as api:
        sent = await api.send("send", {"a": "x/y=z", "b": "1"})
        refused = await api.call("send", {"a": "x; admin=1"})

        assert sent.headers["cookie"] == "a=x/y=z; b=1"
        assert refused.code == "invalid_arguments"


async def test_a_content_parameter_is_json_in_one_value():
    described = with_parameter(name="filter", content={"application/json": {"schema": ANY}}, **{"in": "query"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"filter": {"a": [1, None], "b": "x&y"}})

        assert sent.path == "/x?filter=%7B%22a%22%3A%5B1%2Cnull%5D%2C%22b%22%3A%22x%26y%22%7D"


@pytest.mark.parametrize(
    ("media_type", "value", "segment"),
    [
        ("text/plain", "a b", "a%20b"),
        ("text/plain", 1.5, "1.5"),
        ("application/json", "a b", "%22a%20b%22"),
        ("application/json", {"a": [1, None]}, "%7B%22a%22%3A%5B1%2Cnull%5D%7D"),
        ("application/vnd.acme+json", "x", "%22x%22"),
    ],
)
async def test_a_content_parameter_in_the_path_is_written_in_its_media_type(media_type, value, segment):
    described = with_parameter(
        "/x/{v}", name="v", required=True, content={media_type: {"schema": ANY}}, **{"in": "path"}
    )
    async with serving_api(described) as api:
        assert (await api.send("send", {"v": value})).path == f"/x/{segment}"


@pytest.mark.parametrize(
    ("media_type", "value", "cookie"),
    [
        ("text/plain", "a b;c", "v=a%20b%3Bc"),
        ("application/json", {"a": "x y"}, "v=%7B%22a%22%3A%22x%20y%22%7D"),
    ],
)
async def test_a_content_parameter_in_a_cookie_is_written_in_its_media_type(media_type, value, cookie):
    described = with_parameter(name="v", content={media_type: {"schema": ANY}}, **{"in": "cookie"})
    async with serving_api(described) as api:
        assert (await api.send("send", {"v": value})).headers["cookie"] == cookie


async def test_a_content_parameter_in_a_header_is_ascii():
    described = with_parameter(name="X-Filter", content={"application/json": {"schema": ANY}}, **{"in": "header"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"X-Filter": {"city": "Zürich"}})

        assert sent.headers["x-filter"] == '{"city":"Z\\u00fcrich"}'


async def test_reserved_characters_stay_only_where_the_document_allows_them():
    for allowed, expected in ((False, "q=a%2Fb%3Ac%3F%26d%23%2B"), (True, "q=a/b:c?%26d%23%2B")):
        described = with_parameter(name="q", allowReserved=allowed, schema=ANY, **{"in": "query"})
        async with serving_api(described) as api:
            sent = await api.send("send", {"q": "a/b:c?&d#+"})

            assert sent.path == f"/x?{expected}"


async def test_reserved_characters_stay_in_a_path_that_allows_them():
    for allowed, expected in ((False, "a%3Ab%40c%2Fd%3Fe"), (True, "a:b@c%2Fd%3Fe")):
        described = with_parameter(
            "/x/{q}", name="q", required=True, allowReserved=allowed, schema=ANY, **{"in": "path"}
        )
        async with serving_api(described) as api:
            assert (await api.send("send", {"q": "a:b@c/d?e"})).path == f"/x/{expected}"


async def test_the_equals_sign_of_a_name_is_encoded_where_reserved_characters_stay():
    described = with_parameter(name="q", allowReserved=True, schema=ANY, **{"in": "query"})
    async with serving_api(described) as api:
        assert (await api.send("send", {"q": {"a=b": "c=d"}})).path == "/x?a%3Db=c=d"


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (3, "3"), (2.0, "2"), (1.5, "1.5"), (0, "0"), ("", "")]
)
async def test_scalars_are_written_as_json_writes_them(value, text):
    described = with_parameter(name="v", schema=ANY, **{"in": "query"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"v": value})

        assert sent.path == f"/x?v={text}"


async def test_null_and_empty_lists_are_left_out_of_the_query():
    described = with_parameter(name="v", schema={"nullable": True}, **{"in": "query"})
    async with serving_api(described) as api:
        for value in (None, [], {}):
            assert (await api.send("send", {"v": value})).path == "/x"


async def test_data_is_encoded_and_the_delimiters_are_not():
    described = with_parameter(name="tags[]", explode=False, schema=ANY, **{"in": "query"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"tags[]": ["a,b", "c&d=e", "ü"]})

        assert sent.path == "/x?tags%5B%5D=a%2Cb,c%26d%3De,%C3%BC"


async def test_a_default_is_sent_only_if_it_is_given():
    described = with_parameter(name="page", schema={"type": "integer", "default": 1}, **{"in": "query"})
    async with serving_api(described) as api:
        assert (await api.send("send")).path == "/x"
        assert (await api.send("send", {"page": 1})).path == "/x?page=1"


@pytest.mark.parametrize(
    "value", ["..", ".", "", "../admin", "a/../b", "a/..", "..\\admin", "./a", "..;x=1/admin", "a/.;/b"]
)
async def test_a_path_parameter_cannot_change_the_shape_of_the_path(value):
    described = with_parameter("/x/{id}/y", name="id", required=True, schema=ANY, **{"in": "path"})
    async with serving_api(described) as api:
        outcome = await api.call("send", {"id": value})

        assert outcome.code == "invalid_arguments"
        assert not outcome.executed
        assert api.server.asked == []


async def test_values_that_make_a_dot_segment_together_are_refused():
    parameters = [{"name": name, "in": "path", "required": True, "schema": ANY} for name in ("a", "b")]
    for path in ("/x/{a}{b}/y", "/x/.{a}{b}/y"):
        described = document({path: {"get": operation(parameters=parameters)}})
        async with serving_api(described) as api:
            assert (await api.call("send", {"a": ".", "b": "/"})).code == "invalid_arguments"
            assert api.server.asked == []


@pytest.mark.parametrize(
    ("style", "value"), [("label", "."), ("label", "./x"), ("matrix", "/../x"), ("simple", [".."])]
)
async def test_no_style_lets_a_value_change_the_shape_of_the_path(style, value):
    described = with_parameter("/x/{id}", name="id", required=True, style=style, schema=ANY, **{"in": "path"})
    async with serving_api(described) as api:
        assert (await api.call("send", {"id": value})).code == "invalid_arguments"
        assert api.server.asked == []


async def test_a_slash_in_a_path_parameter_is_encoded():
    described = with_parameter("/x/{id}", name="id", required=True, schema=ANY, **{"in": "path"})
    async with serving_api(described) as api:
        sent = await api.send("send", {"id": "a/b..c/...?a=b#c"})

        assert sent.path == "/x/a%2Fb..c%2F...%3Fa%3Db%23c"


async def test_a_header_value_never_adds_a_header():
    described = with_parameter(name="X-A", schema=ANY, **{"in": "header"})
    async with serving_api(described) as api:
        outcome = await api.call("send", {"X-A": "1\r\nX-Evil: 1"})

        assert outcome.code == "invalid_arguments"
        assert api.server.asked == []


@pytest.mark.parametrize("place", ["query", "header"])
async def test_a_value_too_large_for_its_place_is_refused(place):
    described = with_parameter(name="v", schema=ANY, **{"in": place})
    async with serving_api(described) as api:
        outcome = await api.call("send", {"v": "x" * 200_000})

        assert outcome.code == "invalid_arguments"
        assert api.server.asked == []


async def test_a_whole_query_string_of_version_3_2_is_written_from_one_object():
    described = with_parameter(
        version="3.2.0",
        name="all",
        content={"application/x-www-form-urlencoded": {"schema": {"type": "object"}}},
        **{"in": "querystring"},
    )
    async with serving_api(described) as api:
        sent = await api.send("send", {"all": {"a": [1, 2], "b": "x y"}})

        assert sent.path == "/x?a=1&a=2&b=x%20y"


@pytest.mark.parametrize(
    ("media_type", "value", "query"),
    [
        ("application/json", {"a": [1, None]}, "%7B%22a%22%3A%5B1%2Cnull%5D%7D"),
        ("application/json", "x", "%22x%22"),
        ("text/plain", "a b", "a%20b"),
    ],
)
async def test_a_whole_query_string_is_written_in_its_media_type(media_type, value, query):
    described = with_parameter(
        version="3.2.0", name="all", content={media_type: {"schema": ANY}}, **{"in": "querystring"}
    )
    async with serving_api(described) as api:
        assert (await api.send("send", {"all": value})).path == f"/x?{query}"


FREE_OBJECT = {"type": "object", "additionalProperties": {"type": "string"}}


def account_and_filter(place, **style):
    text = {"type": "string"}
    account = {"name": "account", "in": place, "required": True, "schema": text}
    described = {"name": "filter", "in": place, "schema": FREE_OBJECT, **style}
    return document({"/x": {"get": operation(parameters=[account, described])}}, "3.2.0")


@pytest.mark.parametrize(
    "described",
    [
        account_and_filter("query", style="form", explode=True),
        account_and_filter("cookie", style="form", explode=True),
        account_and_filter("cookie", style="cookie", explode=True),
    ],
    ids=["query", "cookie form", "cookie"],
)
@pytest.mark.parametrize("key", ["account", "ACCOUNT", "account[]", "account[id]", " account"])
async def test_a_key_of_an_exploded_object_cannot_repeat_a_parameter(described, key):
    async with serving_api(described, given={"account": "mine"}) as api:
        outcome = await api.call("send", {"filter": {"x": "1", key: "theirs"}})

        assert (outcome.code, api.server.asked) == ("invalid_arguments", [])
        assert "another field of the request has that name" in outcome.message
        assert (await api.call("send", {"filter": {"x": "1", "accounts": "2"}})).ok


async def test_a_key_of_a_deep_object_cannot_repeat_a_parameter():
    deep = {"name": "filter", "in": "query", "style": "deepObject", "explode": True, "schema": FREE_OBJECT}
    fixed = {"name": "filter[account]", "in": "query", "required": True, "schema": {"type": "string"}}
    described = document({"/x": {"get": operation(parameters=[fixed, deep])}})
    async with serving_api(described, given={"filter[account]": "mine"}) as api:
        outcome = await api.call("send", {"filter": {"account": "theirs"}})

        assert (outcome.code, api.server.asked) == ("invalid_arguments", [])
        assert (await api.send("send", {"filter": {"x": "1"}})).path == "/x?filter%5Baccount%5D=mine&filter[x]=1"


async def test_a_key_of_an_exploded_object_cannot_repeat_a_key_of_another_one():
    parameters = [
        {"name": name, "in": "query", "style": "form", "explode": True, "schema": FREE_OBJECT} for name in ("a", "b")
    ]
    described = document({"/x": {"get": operation(parameters=parameters)}})
    async with serving_api(described, given={"a": {"account": "mine"}}) as api:
        outcome = await api.call("send", {"b": {"account": "theirs"}})

        assert (outcome.code, api.server.asked) == ("invalid_arguments", [])


async def test_a_key_of_an_object_cannot_repeat_a_fixed_field_of_the_path_nor_the_key_of_the_api():
    scheme = {"type": "apiKey", "in": "query", "name": "api_key"}
    exploded = {"name": "filter", "in": "query", "style": "form", "explode": True, "schema": FREE_OBJECT}
    described = document(
        {"/x?kind=a": {"get": operation(parameters=[exploded], security=[{"k": []}])}},
        components={"securitySchemes": {"k": scheme}},
    )
    async with serving_api(described, auth={"k": "secret-word"}) as api:
        for key in ("kind", "api_key"):
            assert (await api.call("send", {"filter": {key: "theirs"}})).code == "invalid_arguments"
        assert api.server.asked == []
        assert (await api.send("send", {"filter": {"x": "1"}})).path == "/x?kind=a&x=1&api_key=secret-word"


async def test_a_whole_query_string_cannot_repeat_the_key_of_the_api():
    content = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    whole = {"name": "all", "in": "querystring", "content": content}
    described = document(
        {"/x": {"get": operation(parameters=[whole], security=[{"k": []}])}},
        "3.2.0",
        components={"securitySchemes": {"k": {"type": "apiKey", "in": "query", "name": "api_key"}}},
    )
    async with serving_api(described, auth={"k": "secret-word"}) as api:
        outcome = await api.call("send", {"all": {"api_key": "theirs"}})

        assert (outcome.code, api.server.asked) == ("invalid_arguments", [])


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_key_of_an_exploded_field_of_a_form_cannot_repeat_another_field(media_type):
    schema = {"type": "object", "properties": {"tenant": {"type": "string"}, "extra": FREE_OBJECT}}
    encoding = {"extra": {"style": "form", "explode": True}}
    async with serving_api(with_body(media_type, schema, encoding=encoding), given={"tenant": "mine"}) as api:
        outcome = await api.call("send", {"extra": {"tenant": "theirs"}})

        assert (outcome.code, api.server.asked) == ("invalid_arguments", [])
        assert (await api.call("send", {"extra": {"x": "1"}})).ok


async def test_a_value_in_the_query_of_a_path_adds_no_field_to_it():
    parameter = {"name": "id", "in": "path", "required": True, "allowReserved": True, "schema": {"type": "string"}}
    described = document({"/x/{id}?kind=a&id={id}": {"get": operation(parameters=[parameter])}}, "3.2.0")
    async with serving_api(described) as api:
        sent = await api.send("send", {"id": "1&admin=true"})

        assert sent.path == "/x/1&admin=true?kind=a&id=1%26admin%3Dtrue"
