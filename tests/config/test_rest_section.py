"""The section `rest_tools`: every key, and mistakes with their line."""

import ssl
from pathlib import Path

import pytest
import trustme

from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode
from surehand.config.rest_section import parse_rest_tools
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
        ("{url: https://a.test/, stream: {mode: json-stream, timeoutMs: soon}}", "timeoutMs must be a duration"),
        ("{url: https://a.test/, stream: {mode: json-stream, timeout_ms: [2]}}", "timeout_ms must be a duration"),
        ("{url: https://a.test/, http: {max_byte: 1MB}}", "did you mean 'max_bytes'"),
        ("{url: https://a.test/, http: {max_bytes: lots}}", "max_bytes must be a size"),
        ("{url: https://a.test/, http: {ca_file: none.pem}}", "none.pem cannot be read: No such file"),
        ("{url: https://a.test/, repeatable: maybe}", "repeatable must be true or false"),
        ("{url: https://a.test/, display: mine}", "display must be a mapping"),
    ],
)
def test_a_mistake_is_an_error_with_its_line(load, entry, problem):
    with pytest.raises(ConfigError) as error:
        load(f"queues: {{slow: {{concurrent: 1}}}}\nrest_tools:\n  weather: {entry}\n")

    assert problem in str(error.value)
    assert "surehand.yaml:3" in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("section", "stream", "seconds"),
    [
        ("rest_tools", "{mode: json-stream, timeoutMs: 2s}", 2),
        ("rest_tools", "{mode: json-stream, timeout_ms: 1500}", 1.5),
        ("restTools", "{mode: json-stream, timeoutMs: '2500'}", 2.5),
    ],
)
def test_the_time_limit_of_a_stream_is_that_of_its_tool(load, section, stream, seconds):
    runtime = load(f"{section}: {{a: {{url: 'https://a.test/', stream: {stream}}}}}")

    assert runtime.catalogue.find("a").tool.limits.timeout == seconds


async def test_a_tool_of_the_file_has_the_facets_that_its_calls_need(load):
    async with serving(lambda asked: reply("x" * 500)) as server:
        runtime = load(
            f"""
rest_tools:
  report:
    method: POST
    url: http://127.0.0.1:{server.port}/
    repeatable: true
    max_bytes: 100
    confirm: true
    confirm_message: Send the report?
    display: {{customUI: report}}
"""
        )
        async with runtime:
            pending = await runtime.call("report", {})
            outcome = await runtime.approve(pending.call_id)
            tool = runtime.catalogue.find("report").tool

    assert pending.message == "Send the report?"
    assert (tool.repeatable, tool.presentation.display) == (True, {"customUI": "report"})
    assert outcome.data == "x" * 500
    assert len(outcome.text) < 500


async def test_the_http_settings_of_a_tool_hold_for_its_requests(load):
    async with serving(lambda asked: reply("x" * 2_000)) as server:
        tool = f"url: 'http://127.0.0.1:{server.port}/', http: {{max_bytes: @, user_agent: me/1}}"
        runtime = load(f"rest_tools: {{small: {{{tool.replace('@', '1kB')}}}, large: {{{tool.replace('@', '4kB')}}}}}")
        async with runtime:
            assert (await runtime.call("small", {})).code == "too_large"
            assert (await runtime.call("large", {})).ok

    assert {asked.headers["user-agent"] for asked in server.asked} == {"me/1"}


async def test_a_certificate_authority_of_ones_own_is_a_file_beside_the_configuration(load, tmp_path):
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "own.pem")
    async with serving(lambda asked: reply("secure"), tls=context) as server:
        url = f"https://127.0.0.1:{server.port}/"
        text = f"rest_tools: {{known: {{url: '{url}', http: {{caFile: own.pem}}}}, unknown: {{url: '{url}'}}}}"
        async with load(text) as runtime:
            assert (await runtime.call("known", {})).data == "secure"
            assert "certificate" in (await runtime.call("unknown", {})).message


def test_times_of_the_http_client_without_a_unit_are_in_the_unit_of_the_section(load):
    for section, seconds in (("rest_tools", 5), ("restTools", 0.005)):
        entry = parse_rest_tools(node_of({"a": {"url": "https://a.test/", "http": {"read_timeout": 5}}}, section))[0]

        assert entry.options["http"] == {"read_timeout": seconds}


def node_of(value, section):
    return ConfigNode(Path("surehand.yaml"), {}, value, (section,))


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
