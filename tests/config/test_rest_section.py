"""The section `rest_tools`: every key, and mistakes with their line."""

import pytest

from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from tests.http.server import reply, serving

WHOLE = """
queues: {slow: {concurrent: 1}}
policy: []
rest_tools:
  search:
    description: Search the shop.
    method: POST
    url: "http://127.0.0.1:PORT/${parameters.shop}/search"
    parameters:
      type: object
      properties: {shop: {type: string}, q: {type: string}, page: {type: integer}}
      required: [shop, q]
    query: [page]
    headers: {X-Version: 2, X-Debug: false}
    body: {query: "{{input.q}}", by: "${env.CLIENT}"}
    auth: {apiKey: "${env.KEY}", header: X-Key}
    pick: data.hits
    redact: [email]
    effects: [read]
    cache: 5m
    timeout: 3s
    retries: 1
    queue: slow
    visible: false
    aliases: [find]
    toolsets: [shop]
    category: data
    env: [KEY, CLIENT]
"""


@pytest.fixture
def load(tmp_path):
    def load(text, **environment):
        path = tmp_path / "surehand.yaml"
        path.write_text(text)
        return assemble(read_config(path), environment=environment)

    return load


async def test_every_key_of_a_rest_tool_does_what_it_says(load):
    body = '{"data": {"hits": [{"id": 1, "email": "a@b.test"}]}}'
    async with serving(lambda asked: reply(body, content_type="application/json")) as server:
        runtime = load(WHOLE.replace("PORT", str(server.port)), KEY="k3y-value", CLIENT="me-myself")
        async with runtime:
            outcome = await runtime.call("find", {"shop": "a b", "q": "tea", "page": 2})
            tool = runtime.catalogue.find("search").tool

    [asked] = server.asked
    assert outcome.data == [{"id": 1, "email": "[redacted]"}]
    assert (asked.method, asked.path) == ("POST", "/a%20b/search?page=2")
    assert asked.body == b'{"query":"tea","by":"me-myself"}'
    assert [asked.headers[name] for name in ("x-version", "x-debug", "x-key")] == ["2", "false", "k3y-value"]
    assert (tool.name, tool.aliases, tool.visible, tool.category) == ("rest__search", ("search", "find"), False, "data")
    assert (tool.limits.timeout, tool.limits.retries, tool.limits.queue, tool.limits.cache.ttl) == (3, 1, "slow", 300)
    assert tool.presentation.toolsets == ("shop",)
    assert "surehand.yaml:" in tool.where


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{}", "The REST tool weather has no url"),
        ("{url: 7}", "url must be a text"),
        ("{urll: https://a.test/}", "Unknown key 'urll'. Fix: did you mean 'url'?"),
        ("{url: 'https://{host}/'}", "weather: The URL must begin with a constant scheme, host and port"),
        ("{url: https://a.test/, headers: {X: [1]}}", "X must be a text"),
        ("{url: https://a.test/, effects: [destroy]}", "effects has an unknown effect"),
        ("{url: https://a.test/, queue: none}", "names the queue 'none'"),
        ("{url: https://a.test/, env: [A], headers: {X: '${env.B}'}}", "B, which env does not allow"),
        ("{url: https://a.test/, query: [a], queryParamNames: [a]}", "set the same value"),
        ("{url: https://a.test/, auth: {bearer: hunter2, extra: 1}}", "weather: auth has the keys"),
        ("{url: 'https://a.test/{x}', parameters: {properties: {y: {}}}}", "refers to 'x', which is no parameter"),
        ("{url: https://a.test/, parameters: {properties: 7}}", "weather: "),
    ],
)
def test_a_mistake_is_an_error_with_its_line(load, entry, problem):
    with pytest.raises(ConfigError) as error:
        load(f"queues: {{slow: {{concurrent: 1}}}}\nrest_tools:\n  weather: {entry}\n")

    assert problem in str(error.value)
    assert "surehand.yaml:3" in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_queue_that_no_part_of_the_file_sets_up_is_left_out(load):
    runtime = load("rest_tools: {a: {url: 'https://a.test/', queue: other}}")

    assert runtime.catalogue.find("rest__a").tool.limits.queue is None


def test_a_name_with_other_characters_becomes_a_legal_one(load):
    runtime = load("rest_tools: {'my tool': {url: 'https://a.test/'}}")

    assert [listing.name for listing in runtime.catalogue] == ["rest__my_tool"]


def test_two_tools_of_one_name_are_an_error(load):
    text = "tools: [{name: rest__a, executionType: internal}]\nrest_tools: {a: {url: 'https://a.test/'}}"

    with pytest.raises(ConfigError, match="There is a tool 'rest__a' already") as error:
        load(text.replace("a.test/'", "a.test/?key=hunter2'"))
    assert "hunter2" not in str(error.value)

    assert load(text.replace("a.test/'", "a.test/', on_conflict: rename")).catalogue.find("rest__a_2")
