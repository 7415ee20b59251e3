"""Further pages of a list are followed up to a limit, and only on the same host."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.http.server import reply
from tests.providers.rest.calling import object_schema, rest_tool

PAGES = 5


def page_number(asked):
    return int(parse_qs(urlsplit(asked.path).query).get("page", ["1"])[0])


def as_json(value, **headers):
    return reply(json.dumps(value), content_type="application/json", **headers)


def link_pages(asked):
    number = page_number(asked)
    link = f'</list?page={number - 1}>; rel="prev", </list?page={number + 1}>; rel="next"' if number < PAGES else None
    return as_json([number, -number], link=link)


def next_pages(asked):
    number = page_number(asked)
    following = f"?page={number + 1}" if number < PAGES else None
    return as_json({"data": {"items": [{"n": number, "secret": "x"}]}, "links": {"next": following}})


def cursor_pages(asked):
    number = page_number(asked)
    return as_json({"items": [number], "cursor": number + 1 if number < PAGES else ""})


@pytest.mark.parametrize(
    ("answer", "options", "data"),
    [
        (link_pages, {"paginate": "link"}, [1, -1, 2, -2, 3, -3, 4, -4, 5, -5]),
        (cursor_pages, {"paginate": {"cursor": "cursor", "parameter": "page", "items": "items"}}, [1, 2, 3, 4, 5]),
        (next_pages, {"paginate": {"next": "links.next"}, "pick": "data.items"}, None),
    ],
)
async def test_all_pages_are_put_together(answer, options, data):
    async with rest_tool("GET", "/list", answer=answer, auth="t0ken", **options) as call:
        outcome = await call()

        assert outcome.data == data or [item["n"] for item in outcome.data] == [1, 2, 3, 4, 5]
        assert outcome.metadata == {"pages": 5, "has_more": False}
        assert {asked.headers["authorization"] for asked in call.server.asked} == {"Bearer t0ken"}


async def test_a_limit_ends_it_and_says_so():
    async with rest_tool("GET", "/list", answer=link_pages, paginate={"link": True, "max_pages": 2}) as call:
        outcome = await call()

        assert outcome.data == [1, -1, 2, -2]
        assert outcome.metadata["has_more"]
        assert "2 pages were read, and there are more" in outcome.text
        assert len(call.server.asked) == 2


async def test_a_cursor_keeps_the_other_parameters():
    paginate = {"cursor": "cursor", "parameter": "page", "items": "items", "max_pages": 2}
    options = {"answer": cursor_pages, "paginate": paginate, "parameters": object_schema(q={"type": "string"})}
    async with rest_tool("GET", "/list", **options) as call:
        await call(q="a&b")

        assert [asked.path for asked in call.server.asked] == ["/list?q=a%26b", "/list?q=a%26b&page=2"]


@pytest.mark.parametrize("link", ["https://evil.test/x", "//evil.test/x", "http://127.0.0.1:9/x"])
async def test_a_next_page_on_another_host_is_refused(link):
    options = {"paginate": {"next": "next"}, "auth": "t0ken"}
    async with rest_tool("GET", "/list", answer=lambda asked: as_json({"next": link}), **options) as call:
        outcome = await call()

        assert outcome.code == "denied"
        assert len(call.server.asked) == 1


@pytest.mark.parametrize("link", [7, ["x"], "http://[", "file:///etc/passwd"])
async def test_a_next_page_that_is_no_url_is_an_error(link):
    async with rest_tool("GET", "/", answer=lambda asked: as_json({"next": link}), paginate={"next": "next"}) as call:
        assert not (await call()).ok


async def test_pages_that_lead_in_a_circle_end():
    async with rest_tool("GET", "/x", answer=lambda asked: as_json({"next": "/x"}), paginate={"next": "next"}) as call:
        assert (await call()).data == [{"next": "/x"}]


async def test_fields_of_every_page_are_masked():
    options = {"paginate": {"next": "links.next", "items": "data.items"}, "redact": "data.items.secret"}
    async with rest_tool("GET", "/list", answer=next_pages, **options) as call:
        outcome = await call()

        assert {item["secret"] for item in outcome.data} == {"[redacted]"}


async def test_an_error_on_a_later_page_is_the_error_of_the_call():
    def answer(asked):
        return link_pages(asked) if page_number(asked) < 3 else reply("gone", 404, "Not Found")

    async with rest_tool("GET", "/list", answer=answer, paginate="link") as call:
        outcome = await call()

        assert (outcome.code, "gone" in outcome.message) == ("not_found", True)


async def test_the_api_key_in_the_query_is_sent_once():
    options = {"paginate": "link", "auth": {"api_key": "k3y-value", "query": "key"}}

    def answer(asked):
        number = page_number(asked)
        link = f"<{asked.path.partition('?')[0]}?key=k3y-value&page={number + 1}>; rel=next" if number < 2 else None
        return as_json([number], link=link)

    async with rest_tool("GET", "/list", answer=answer, **options) as call:
        assert (await call()).data == [1, 2]
        assert call.asked.path == "/list?page=2&key=k3y-value"
