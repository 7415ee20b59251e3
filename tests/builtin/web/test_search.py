"""`web_search` over real HTTP, against servers on loopback that answer like the engines."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from surehand import DefinitionError, Runtime
from surehand.assemble import assemble
from surehand.builtin.web.search_engines import SearchResult, bing, brave, duckduckgo, google, searxng, tavily
from surehand.builtin.web.tools import web
from surehand.config.config import read_config
from tests.http.server import only_loopback, redirect, reply, serving

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

KEY = "canary-key-123"


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch):
    only_loopback(monkeypatch)


def as_json(value, status=200, **headers):
    return reply(json.dumps(value), status, content_type="application/json; charset=utf-8", **headers)


def query(asked):
    return {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}


def tavily_answer(asked):
    assert (asked.method, asked.path) == ("POST", "/search")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["content-type"] == "application/json"
    wanted = json.loads(asked.body)
    results = [
        {"title": f"Result {n}", "url": f"https://example.com/{n}", "content": f"About {n}", "score": 1 - n / 10}
        | {"raw_content": None}
        for n in range(wanted["max_results"])
    ]
    return as_json({"query": wanted["query"], "answer": None, "images": [], "results": results, "response_time": 1.2})


def google_answer(asked):
    given = query(asked)
    assert (urlsplit(asked.path).path, given["key"], given["cx"]) == ("/customsearch/v1", KEY, "engine-1")
    start, count = int(given["start"]), int(given["num"])
    assert 1 <= count <= 10
    items = [
        {"kind": "customsearch#result", "title": f"Result {n}", "link": f"https://example.com/{n}"}
        | {"snippet": f"About {n}", "displayLink": "example.com", "htmlSnippet": f"<b>About</b> {n}"}
        for n in range(start - 1, start - 1 + count)
    ]
    return as_json({"kind": "customsearch#search", "searchInformation": {"totalResults": "12300"}, "items": items})


def bing_answer(asked):
    given = query(asked)
    assert (urlsplit(asked.path).path, given["responseFilter"]) == ("/v7.0/search", "Webpages")
    assert asked.headers["ocp-apim-subscription-key"] == KEY
    value = [
        {"id": f"#{n}", "name": f"Result {n}", "url": f"https://example.com/{n}", "snippet": f"About {n}"}
        for n in range(int(given["count"]))
    ]
    return as_json({"_type": "SearchResponse", "webPages": {"totalEstimatedMatches": 12300, "value": value}})


def brave_answer(asked):
    given = query(asked)
    assert (urlsplit(asked.path).path, given["text_decorations"]) == ("/res/v1/web/search", "false")
    assert asked.headers["x-subscription-token"] == KEY
    results = [
        {
            "type": "search_result",
            "title": f"Result {n}",
            "url": f"https://example.com/{n}",
            "description": f"About {n}",
        }
        for n in range(int(given["count"]))
    ]
    return as_json({"type": "search", "query": {"original": given["q"]}, "web": {"type": "search", "results": results}})


def searxng_answer(asked):
    given = query(asked)
    assert (urlsplit(asked.path).path, given["format"]) == ("/searx/search", "json")
    results = [
        {
            "title": f"Result {n}",
            "url": f"https://example.com/{n}",
            "content": f"About {n}",
            "engine": "x",
            "score": 2.5,
        }
        | {"category": "general"}
        for n in range(25)
    ]
    return as_json({"query": given["q"], "number_of_results": 0, "results": results, "answers": [], "infoboxes": []})


DUCK_RESULT = """
<div class="result results_links results_links_deep web-result ">
  <div class="links_main links_deep result__body">
    <h2 class="result__title">
      <a rel="nofollow" class="result__a"
         href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2F{n}&amp;rut=abc">Result <b>{n}</b></a>
    </h2>
    <div class="result__extras"><a class="result__url" href="//duckduckgo.com/l/?uddg=x">example.com/{n}</a></div>
    <a class="result__snippet" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2F{n}">About
      <b>{n}</b></a>
  </div>
</div>"""
DUCK_AD = """
<div class="result results_links result--ad"><h2 class="result__title">
  <a rel="nofollow" class="result__a" href="https://duckduckgo.com/y.js?ad_domain=ads.test&amp;u3=x">Buy</a></h2>
  <a class="result__snippet" href="https://duckduckgo.com/y.js?x">Cheap</a></div>"""


def duckduckgo_answer(asked):
    assert (asked.method, asked.path) == ("POST", "/html/")
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    rows = "".join(DUCK_RESULT.format(n=n) for n in range(25))
    page = f'<!DOCTYPE html><html><body><div id="links" class="results">{DUCK_AD}{rows}</div></body></html>'
    return reply(page, content_type="text/html; charset=UTF-8")


ENGINES = {
    "tavily": (tavily_answer, lambda base: tavily(KEY, endpoint=f"{base}/search", allow_private=True)),
    "google": (
        google_answer,
        lambda base: google(KEY, "engine-1", endpoint=f"{base}/customsearch/v1", allow_private=True),
    ),
    "bing": (bing_answer, lambda base: bing(KEY, endpoint=f"{base}/v7.0/search", allow_private=True)),
    "brave": (brave_answer, lambda base: brave(KEY, endpoint=f"{base}/res/v1/web/search", allow_private=True)),
    "searxng": (searxng_answer, lambda base: searxng(f"{base}/searx/", allow_private=True)),
    "duckduckgo": (duckduckgo_answer, lambda base: duckduckgo(endpoint=f"{base}/html/", allow_private=True)),
}


async def run_search(name, arguments, answer=None):
    """The outcome of one search, and the request that the engine got."""
    speaks, make = ENGINES[name]
    async with serving(answer or speaks) as server:
        engine = make(f"http://127.0.0.1:{server.port}")
        async with Runtime(web(search=engine)) as runtime:
            outcome = await runtime.call("web_search", arguments)
    assert KEY not in outcome.text
    return outcome, server.asked


@pytest.mark.parametrize("name", ENGINES)
async def test_every_engine_returns_results_of_the_same_form(name):
    outcome, _ = await run_search(name, {"query": "tools", "limit": 3})

    assert outcome.ok, outcome
    assert (outcome.data["query"], outcome.data["totalResults"]) == ("tools", 3)
    scored = name in ("tavily", "searxng")
    for n, result in enumerate(outcome.data["results"]):
        assert result.keys() == {"title", "url", "content"} | ({"score"} if scored else set())
        assert (result["title"], result["url"]) == (f"Result {n}", f"https://example.com/{n}")
        assert result["content"] == f"About {n}"
    assert outcome.title == "From the web: tools"
    assert outcome.metadata == {"engine": name}


@pytest.mark.parametrize("name", ENGINES)
async def test_ten_results_are_returned_by_default(name):
    ten, _ = await run_search(name, {"query": "tools"})
    twenty, asked = await run_search(name, {"query": "tools", "limit": 20})

    assert (len(ten.data["results"]), len(twenty.data["results"])) == (10, 20)
    assert len(asked) == (2 if name == "google" else 1)


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("tavily", "time_range", ["day", "week", "month", "year"]),
        ("google", "dateRestrict", ["d1", "w1", "m1", "y1"]),
        ("bing", "freshness", ["Day", "Week", "Month", None]),
        ("brave", "freshness", ["pd", "pw", "pm", "py"]),
        ("searxng", "time_range", ["day", "week", "month", "year"]),
        ("duckduckgo", "df", ["d", "w", "m", "y"]),
    ],
)
async def test_the_time_range_is_translated_for_each_engine(name, field, values):
    for time_range, value in zip(["day", "week", "month", "year"], values, strict=True):
        _, (asked, *_) = await run_search(name, {"query": "tools", "limit": 1, "time_range": time_range})
        given = json.loads(asked.body) if name == "tavily" else query(asked)
        if name == "duckduckgo":
            given = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}

        assert given[field] == value or (value is None and ".." in given[field])


@pytest.mark.parametrize("name", ENGINES)
async def test_domains_are_included_and_excluded(name):
    arguments = {"query": "tools", "include_domains": ["python.org", "https://pypi.org/"], "exclude_domains": ["x.com"]}
    _, (asked, *_) = await run_search(name, arguments)

    if name == "tavily":
        given = json.loads(asked.body)
        assert (given["include_domains"], given["exclude_domains"]) == (["python.org", "pypi.org"], ["x.com"])
    else:
        given = query(asked)["q"] if name != "duckduckgo" else parse_qs(asked.body.decode())["q"][0]
        assert given == "tools (site:python.org OR site:pypi.org) -site:x.com"


@pytest.mark.parametrize("domain", ["a b", "x.com OR site:y.com", "", '"', "x" * 300, "a/b"])
async def test_a_domain_cannot_inject_operators_into_the_query(domain):
    outcome, asked = await run_search("brave", {"query": "tools", "include_domains": [domain]})

    assert outcome.code == "invalid_arguments"
    assert asked == []


async def test_topic_is_a_parameter_if_the_engine_has_topics():
    _, (asked,) = await run_search("tavily", {"query": "tools", "topic": "news"})
    assert json.loads(asked.body)["topic"] == "news"
    _, (asked,) = await run_search("searxng", {"query": "tools", "topic": "news"})
    assert query(asked)["categories"] == "news"

    outcome, asked = await run_search("brave", {"query": "tools", "topic": "news"})
    assert (outcome.code, asked) == ("invalid_arguments", [])


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("status", "code"),
    {401: "failed", 403: "failed", 400: "failed", 429: "rate_limited", 500: "unavailable", 302: "failed"}.items(),
)
async def test_an_error_of_the_engine_does_not_reveal_the_key(name, status, code):
    def answer(asked):
        said = {"error": f"key {KEY} is not good"}
        return redirect("http://other.test/") if status == 302 else as_json(said, status, retry_after="9")

    outcome, asked = await run_search(name, {"query": "tools"}, answer)

    assert outcome.code == code
    assert name in outcome.message
    assert outcome.retry_after == (9 if status == 429 else None)
    assert len(asked) == 1


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        "[" * 100000,
        '{"results": 1, "items": "x", "web": [], "webPages": null}',
        "<html></html>",
        '{"results": [1, null, {"url": 5}, {"url": "javascript:alert(1)", "title": "x"}], "web": {"results": {}}}',
    ],
)
async def test_unexpected_responses_are_handled(name, body):
    outcome, _ = await run_search(name, {"query": "tools"}, lambda asked: reply(body, content_type="application/json"))

    assert outcome.code == "failed" if not outcome.ok else outcome.data["results"] == []


async def test_a_puzzle_of_duckduckgo_is_rate_limited():
    for answer in (reply("<html></html>", 202), reply('<div class="anomaly-modal__mask"></div>')):
        outcome, _ = await run_search("duckduckgo", {"query": "tools"}, lambda asked, a=answer: a)

        assert outcome.code == "rate_limited"


@pytest.mark.parametrize("piece", ["<a", '<a class="', '<a class="result__a">', "&#1"])
async def test_a_page_made_to_be_slow_is_read_quickly(piece):
    page = piece * (500_000 // len(piece))
    outcome, _ = await run_search("duckduckgo", {"query": "tools"}, lambda asked: reply(page, content_type="text/html"))

    assert outcome.data["results"] == []


async def test_long_contents_are_truncated_and_sanitized():
    result = {"title": "a\x00b\u202e", "url": "https://example.com/", "content": "\x1b[31m" + "x" * 5000}
    outcome, _ = await run_search("tavily", {"query": "tools"}, lambda asked: as_json({"results": [result]}))

    (shown,) = outcome.data["results"]
    assert (shown["title"], len(shown["content"])) == ("ab", 1000)
    assert "\x1b" not in shown["content"]


@pytest.mark.parametrize("limit", [0, 21, -1, "many", 1.5])
async def test_the_number_of_results_is_limited(limit):
    outcome, asked = await run_search("tavily", {"query": "tools", "limit": limit})

    assert (outcome.code, asked) == ("invalid_arguments", [])


async def test_a_key_is_read_when_it_is_needed(monkeypatch):
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    async with serving(tavily_answer) as server:
        engine = tavily(endpoint=f"http://127.0.0.1:{server.port}/search", allow_private=True)
        async with Runtime(web(search=engine)) as runtime:
            missing = await runtime.call("web_search", {"query": "tools"})
            monkeypatch.setenv("TAVILY_API_KEY", KEY)
            found = await runtime.call("web_search", {"query": "tools"})

    assert (missing.code, missing.executed) == ("unavailable", False)
    assert "TAVILY_API_KEY" in missing.message
    assert found.ok


def test_a_key_is_never_shown():
    for engine in (
        tavily(KEY),
        google(KEY, KEY),
        brave(KEY),
        bing(KEY, endpoint="https://bing.example.com/v7.0/search"),
    ):
        assert KEY not in repr(engine)
        assert KEY not in str(engine)


async def test_without_an_engine_there_is_no_web_search_and_a_call_names_the_remedy():
    async with Runtime(web()) as runtime:
        assert "web_search" not in {entry["function"]["name"] for entry in runtime.describe()}
        outcome = await runtime.call("web_search", {"query": "tools"})
    async with Runtime(web(search=duckduckgo())) as runtime:
        assert "web_search" in {entry["function"]["name"] for entry in runtime.describe()}

    assert (outcome.code, outcome.executed) == ("denied", False)
    assert "web_search is not allowed here: no search engine is set up" in outcome.message
    assert "web(search=" in outcome.message


async def test_an_engine_on_a_private_address_needs_permission():
    async with serving(tavily_answer) as server:
        closed = tavily(KEY, endpoint=f"http://127.0.0.1:{server.port}/search")
        async with Runtime(web(search=closed)) as runtime:
            assert (await runtime.call("web_search", {"query": "tools"})).code == "denied"

    assert server.asked == []


async def test_private_access_of_an_engine_does_not_extend_to_the_model():
    async with serving(searxng_answer) as server:
        engine = searxng(f"http://127.0.0.1:{server.port}/searx", allow_private=True)
        async with Runtime(web(search=engine)) as runtime:
            assert (await runtime.call("web_search", {"query": "tools"})).ok
            outcome = await runtime.call("webfetch", {"url": f"http://127.0.0.1:{server.port}/searx/search?q=x"})

    assert outcome.code == "denied"
    assert len(server.asked) == 1


@pytest.mark.parametrize("endpoint", ["", "searx.example.com", "ftp://x/", "https://user:word@x.test/"])
def test_an_invalid_endpoint_is_a_definition_error(endpoint):
    with pytest.raises(DefinitionError, match="endpoint of tavily"):
        tavily(KEY, endpoint=endpoint)


async def test_users_can_write_their_own_engine():
    class Shelf:
        name, topics = "shelf", ()

        async def search(self, search_query):
            return [SearchResult(f"{search_query.text} {n}", f"https://shelf.test/{n}") for n in range(30)]

    async with Runtime(web(search=Shelf())) as runtime:
        outcome = await runtime.call("web_search", {"query": "books", "limit": 2})

    assert [result["title"] for result in outcome.data["results"]] == ["books 0", "books 1"]


@pytest.mark.parametrize(("make", "example"), [(bing, r"bing\(endpoint="), (searxng, r'searxng\("https://')])
def test_a_search_engine_without_its_endpoint_is_a_clear_error(make, example):
    with pytest.raises(DefinitionError, match=f"needs the URL of the server.*{example}"):
        make()


@pytest.mark.parametrize(("name", "setting", "path"), [("searxng", "url", "/searx"), ("tavily", "endpoint", "/search")])
async def test_a_private_address_of_an_engine_can_be_configured(tmp_path, name, setting, path):
    async with serving(ENGINES[name][0]) as server:
        address = f"http://127.0.0.1:{server.port}{path}"
        search = {"engine": name, setting: address, **({"key": KEY} if name == "tavily" else {})}
        allow = [{"effects": ["network"], "decision": "allow"}]
        file = tmp_path / "surehand.json"
        file.write_text(json.dumps({"builtin": {"web": {"search": search}}, "policy": allow}))
        async with assemble(read_config(file)) as runtime:
            found = await runtime.call("web_search", {"query": "tools"})
            fetched = await runtime.call("webfetch", {"url": address})

    assert found.ok, found
    assert fetched.code == "denied"
