"""Mistakes in a definition are found when the tool is defined, and the tool has the facets that its method implies."""

import pytest

from surehand import DefinitionError, rest
from tests.providers.rest.calling import object_schema

URL = "https://api.example.com/v1"
CITY = object_schema(city={"type": "string"})


def define(method="GET", url=URL, **options):
    return rest(method, url, **{"name": "api", **options})


@pytest.mark.parametrize(
    "url",
    [
        "https://{host}/v1",
        "https://api.{city}/v1",
        "https://api.example.com{city}",
        "https://api.example.com:{city}/",
        "https://api.example.com:${parameters.city}/",
        "{scheme}://api.example.com/",
        "${env.BASE}/v1",
        "{{input.url}}",
        "https://user:password@api.example.com/",
        "https://${env.USER}@api.example.com/",
        "ftp://api.example.com/",
        "//api.example.com/",
        "/v1",
        "https://",
        "https://api.example.com/#part",
        "https://api.example.com/a/../b",
        "https://api.example.com/a/%2e%2e/b",
        "https://api.example.com/{city",
        "https://api.example.com/city}",
        "https://api.example.com/{}",
        "https://api.example.com/{a b}",
        "https://api.example.com/{?q}{",
        "https://api.example.com/${parameters.city",
        "https://api.example.com/{{input.city}",
        "https://api.example.com/{{city}}",
        "https://api.example.com/${parameters.}",
        "https://api.example.com/${parameters[0]}",
        "https://api.example.com/${parameters.a[x]}",
        "https://api.example.com/${env.}",
        "https://api.example.com/${env.A B}",
        "https://api.example.com/?{city}=1",
        "https://api.example.com/?${parameters.city}",
        7,
    ],
)
def test_a_wrong_url_is_a_definition_error(url):
    with pytest.raises(DefinitionError):
        define(url=url)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "GETT"}, "did you mean GET"),
        ({"method": "CONNECT"}, "is not a method"),
        ({"method": "GET", "body": {}}, "A GET request has no body"),
        ({"headers": {"X": "a\r\nb"}}, "line break"),
        ({"headers": {"Host": "x"}}, "belongs to the connection"),
        ({"headers": {"Content-Length": "1"}}, "belongs to the connection"),
        ({"headers": {"X Y": "x"}}, "is no name of a header"),
        ({"headers": {"X": "${parameters.city"}}, "is not closed"),
        ({"headers": {"X": "1", "x": "2"}}, "same name"),
        ({"method": "POST", "body": "{not json"}, "The body is not JSON"),
        ({"method": "POST", "body": {"{{input.city}}": 1}}, "is not a constant key"),
        ({"method": "POST", "body": {"a": object()}}, "cannot hold a object"),
        ({"method": "POST", "body": "x", "body_type": "xml"}, "Unknown body_type"),
        ({"method": "POST", "body": {}, "body_type": "text"}, "must be a text"),
        ({"method": "POST", "body": [], "body_type": "form"}, "must be a mapping"),
        ({"method": "POST", "body_type": "form"}, "no effect without body"),
        ({"query": "city"}, "query must be"),
        ({"query": [1]}, "names of parameters"),
        ({"query_style": "x"}, "Unknown query_style"),
        ({"parameters": {"city": {"type": "string"}}}, "not a JSON Schema"),
        ({"url": f"{URL}/{{town}}"}, "refers to 'town', which is no parameter"),
        ({"url": f"{URL}/${{city}}"}, "is also a parameter"),
        ({"pick": "a..b"}, "is not a path"),
        ({"redact": 7}, "redact must be"),
        ({"auth": {"bearer": ""}}, "must be a text"),
        ({"auth": {"bearer": "${parameters.city}"}}, "refers to an argument"),
        ({"auth": {"token": "x"}}, "do not fit"),
        ({"auth": {"api_key": "x", "header": "a b"}}, "is no name of a header"),
        ({"auth": {"api_key": "x", "header": "a", "query": "b"}}, "takes one of"),
        ({"auth": {"oauth2": {"token_url": "https://a.test/t"}}}, "lacks client_id"),
        ({"auth": {"oauth2": {"token_url": "x", "client_id": "a", "client_secret": "b"}}}, "token_url"),
        ({"paginate": "pages"}, "cannot be used"),
        ({"paginate": "link", "method": "POST"}, "read by several requests"),
        ({"paginate": "link", "stream": "sse"}, "A stream has no pages"),
        ({"paginate": {"cursor": "next"}}, "query parameter"),
        ({"paginate": {"next": "a", "link": True}}, "one of next"),
        ({"paginate": {"next": "a", "max_pages": 0}}, "max_pages"),
        ({"stream": "csv"}, "cannot be used"),
        ({"stream": {"mode": "json-stream", "token_feld": "x"}}, "did you mean 'token_field'"),
        ({"env": ["OTHER"], "headers": {"X": "${env.TOKEN}"}}, "TOKEN, which env does not allow"),
        ({"env": [], "auth": "${env.TOKEN}"}, "TOKEN, which env does not allow"),
        ({"http": {"max_byte": 1}}, "http has no key"),
        ({"http": {"max_bytes": -1}}, "max_bytes must be positive"),
        ({"lifespan": lambda: None}, "lifespan of its own"),
        ({"method": "POST", "cache": 5}, "cannot be cached"),
        ({"confrim": True}, "did you mean 'confirm'"),
    ],
)
def test_a_mistake_is_a_definition_error_with_its_place(options, problem):
    with pytest.raises(DefinitionError) as error:
        define(**{"parameters": CITY, **options})

    assert problem in str(error.value)
    assert error.value.where.startswith(__file__)


def test_an_error_shows_no_secret():
    with pytest.raises(DefinitionError) as error:
        define(auth={"bearer": "hunter2-${env."}, headers={"X": "x"})

    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("method", "effects", "repeatable"),
    [
        ("get", {"read"}, True),
        ("HEAD", {"read"}, True),
        ("OPTIONS", {"read"}, True),
        ("QUERY", {"read"}, True),
        ("POST", {"write"}, False),
        ("PUT", {"write"}, False),
        ("PATCH", {"write"}, False),
        ("DELETE", {"write"}, False),
    ],
)
def test_effects_follow_from_the_method(method, effects, repeatable):
    tool = define(method)

    assert (tool.kind, tool.effects, tool.repeatable) == ("rest", effects, repeatable)
    assert tool.where.startswith(__file__)


def test_effects_can_be_declared():
    tool = define("POST", effects={"read"}, cache="5m")

    assert (tool.repeatable, tool.limits.retries) == (True, 2)


def test_two_requests_under_one_name_are_two_definitions():
    one = define(headers={"X": "1"})
    same = define(headers={"X": "1"})
    other = define(headers={"X": "2"})

    assert one.approval_binding == same.approval_binding
    assert one.approval_binding != other.approval_binding
