"""The configuration blocks of the five source documents load as they stand there, and each key does what it says.

The blocks are in the folder `documents`, with the keys as they are.
"""

import json
from pathlib import Path

import pytest

from surehand import Call, Pending, Runtime, tool
from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from tests.http.server import only_loopback, reply, serving

DOCUMENTS = Path(__file__).with_name("documents")
WHOLE_FILES = sorted(path.name for path in DOCUMENTS.iterdir())
INTERNAL = '"executionType": "internal"'
SEAT_MAP = '"display": { "customUI": "seat-map" }'
NO_SERVERS = ("enabled: true", "enabled: false")


@tool
async def note() -> str:
    """Note something."""
    return "noted"


@pytest.fixture
def load(tmp_path):
    """Assemble a document's file in a folder of its own, perhaps changed."""

    def load(name: str, *changes: tuple[str, str], **environment: str):
        text = (DOCUMENTS / name).read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return assemble(read_config(path), environment=environment)

    return load


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_every_file_loads_as_it_stands_without_any_variable_set(load, name):
    runtime = load(name)

    assert runtime.catalogue.select("*") or runtime.providers or runtime.queues()


# 000


def test_servers_of_000_are_limited_to_their_allowed_tools(load):
    [server] = load("000_mcp_servers.json").providers

    assert (server.namespace, server.options.allow) == ("github-tools", ("list_prs", "create_issue"))
    assert server.address.label == "https://mcp.github.com/"


async def test_a_space_tool_waits_for_its_client_which_is_told_what_to_show(load):
    async with load("000_tools.json") as runtime:
        waits = await runtime.call("confirmAction", {"question": "Book it?"})

        assert (waits.waiting_for, waits.request) == ("result", {"customUI": "confirmAction"})
        assert (await runtime.call("confirmAction", {})).code == "invalid_arguments"
        assert (await runtime.settle(waits.call_id, {"confirmed": True})).data == {"confirmed": True}


async def test_the_custom_ui_is_read_in_both_places(load):
    async with load("000_tools.json") as runtime:
        shown = {name: runtime.catalogue.find(name).tool.presentation.display for name in ("confirmAction", "pickSeat")}

        assert shown == {"confirmAction": {"customUI": "confirmAction"}, "pickSeat": {"customUI": "seat-map"}}
        assert (await runtime.call("pickSeat", {})).request == {"customUI": "seat-map"}


async def test_where_both_places_name_a_custom_ui_the_one_at_the_top_counts(load):
    both = f'{SEAT_MAP}, "execution": {{"display": {{"customUI": "other", "wide": true}}}}'

    async with load("000_tools.json", (SEAT_MAP, both)) as runtime:
        assert (await runtime.call("pickSeat", {})).request == {"customUI": "seat-map", "wide": True}


async def test_an_external_tool_without_a_url_gets_its_result_later(load):
    async with load("000_tools.json") as runtime:
        waits = await runtime.call("runBatch", {"rows": 3})

        assert isinstance(waits, Pending)
        assert (await runtime.settle(waits.call_id, "done")).data == "done"


async def test_an_internal_tool_runs_at_once_and_is_shown_in_no_space(load):
    async with load("000_tools.json") as runtime:
        outcome = await runtime.call("noteToSelf", {"anything": 1})

        assert outcome.data == {"success": True, "args": {"anything": 1}}
        visible = {listing.name: listing.tool.visible for listing in runtime.catalogue if listing.kind != "internal"}
        assert visible == {"confirmAction": True, "pickSeat": True, "runBatch": True, "noteToSelf": False}


def echo(asked):
    """A service that tells what it was asked."""
    asked_for = {"method": asked.method, "path": asked.path, "body": asked.body.decode()}
    return reply(json.dumps(asked_for), content_type="application/json")


WEATHER_URL = "https://api.weather.com/current"
GET = ',\n        "method": "GET"'


async def approved(runtime, name, arguments):
    """The outcome of a call that a person approves, if it has to wait."""
    outcome = await runtime.call(name, arguments)
    return await runtime.approve(outcome.call_id) if isinstance(outcome, Pending) else outcome


@pytest.mark.parametrize("kind", ["gateway", "external"])
@pytest.mark.parametrize("key", ["url", "webhookUrl"])
async def test_a_tool_with_a_url_runs_inline_and_get_sends_its_arguments_in_the_query(load, kind, key):
    async with serving(echo) as server:
        local = (WEATHER_URL, f"http://127.0.0.1:{server.port}/current")
        changes = [local, ('"gateway"', f'"{kind}"'), ('"url"', f'"{key}"')]
        async with load("000_gateway_tool.json", *changes) as runtime:
            outcome = await runtime.call("fetchWeather", {"city": "Porto", "days": [1, 2]})
            [listing] = [each for each in runtime.catalogue if each.name == "fetchWeather"]

    assert outcome.data == {"method": "GET", "path": "/current?city=Porto&days=1&days=2", "body": ""}
    assert (listing.kind, listing.tool.effects, listing.tool.visible) == ("rest", {"read"}, True)


async def test_a_request_of_000_is_a_post_of_its_arguments_as_json(load):
    async with serving(echo) as server:
        local = (WEATHER_URL, f"http://127.0.0.1:{server.port}/current")
        async with load("000_gateway_tool.json", local, (GET, "")) as runtime:
            outcome = await approved(runtime, "fetchWeather", {"city": "Porto"})

    assert outcome.data == {"method": "POST", "path": "/current", "body": '{"city":"Porto"}'}
    assert server.asked[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_of_000_but_get_sends_the_arguments_as_json(load, method):
    async with serving(echo) as server:
        changes = ((WEATHER_URL, f"http://127.0.0.1:{server.port}/current"), ('"GET"', f'"{method}"'))
        async with load("000_gateway_tool.json", *changes) as runtime:
            outcome = await approved(runtime, "fetchWeather", {"city": "Porto"})

    assert outcome.data == {"method": method, "path": "/current", "body": '{"city":"Porto"}'}


async def test_headers_and_body_of_000_are_templates(load):
    execution = """,
        "headers": {"Authorization": "Bearer ${env.API_KEY}"}, "timeout": 1500,
        "body": {"q": "{{input.city}}", "days": "{{input.days}}", "fixed": true}"""
    async with serving(echo) as server:
        local = (WEATHER_URL, f"http://127.0.0.1:{server.port}/current")
        async with load("000_gateway_tool.json", local, (GET, execution), API_KEY="k3y-value") as runtime:
            outcome = await approved(runtime, "fetchWeather", {"city": "Porto", "days": 3})
            limit = runtime.catalogue.find("fetchWeather").tool.limits.timeout

    assert json.loads(outcome.data["body"]) == {"q": "Porto", "days": 3, "fixed": True}
    assert server.asked[0].headers["authorization"] == "Bearer k3y-value"
    assert limit == 1.5


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([('"gateway"', '"space"')], "fetchWeather calls no URL, so url has no effect"),
        ([(f'"url": "{WEATHER_URL}",', "")], "fetchWeather has nothing to run: execution has no url"),
        ([(f'"url": "{WEATHER_URL}",', ""), ('"gateway"', '"external"')], "has no url, so method has no effect"),
        ([(WEATHER_URL, "https://{{input.host}}/x")], "json:3: fetchWeather: The URL must begin with a constant"),
        ([('"GET"', '"GET", "webhookUrl": "https://a.test/"')], "fetchWeather has a url and a webhookUrl"),
        ([('"GET"', '"FETCH"')], "fetchWeather: 'FETCH' is not a method"),
        ([('"GET"', '"GET", "headers": {"X": 7}')], "X must be a text"),
    ],
)
def test_a_request_of_000_that_cannot_work_says_why(load, changes, problem):
    with pytest.raises(ConfigError) as error:
        load("000_gateway_tool.json", *changes)

    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (INTERNAL, '"executionType": "gateway"', "noteToSelf has nothing to run: execution has no url"),
        (INTERNAL, '"executionType": "hunter2"', "executionType has an unknown value. Fix: use gateway"),
        (INTERNAL, '"visible": true', "json:24: A tool in the file has no executionType"),
        (SEAT_MAP, '"execution": {"agentConfig": {}}', "An agent as a tool, which pickSeat needs, is not available"),
        (SEAT_MAP, '"execution": {"quality": "hd"}', "Image generation, which pickSeat needs, is not available"),
        (SEAT_MAP, '"execution": {"dispaly": {}}', "Unknown key 'dispaly'. Fix: did you mean 'display'?"),
        (SEAT_MAP, '"parameters": 7', "set the same value"),
        (SEAT_MAP, '"mcpConfig": {"serverName": "a"}', "pickSeat has an executionType, so mcpConfig has no effect"),
        ('"inputSchema": {}', '"inputSchema": {"properties": 7}', "json:11: pickSeat: The JSON Schema cannot be used"),
    ],
)
def test_a_definition_that_cannot_work_says_why_with_its_line(load, old, new, problem):
    with pytest.raises(ConfigError) as error:
        load("000_tools.json", (old, new))

    assert problem in str(error.value)
    assert "hunter2" not in str(error.value)


# 001


def test_the_example_of_001_sets_limits_queue_and_tools(load):
    runtime = load("001_example.yaml")
    [server] = runtime.providers

    assert (runtime.defaults.tool_timeout, runtime.defaults.max_output) == (30.0, 100_000)
    assert (server.queue, server.options.allow) == ("github-queue", ("search_code", "get_file_contents"))
    assert runtime.queues()["github-queue"].capacity == 5


async def test_a_rest_tool_of_001_sends_its_request(load):
    async with serving(echo) as server:
        local = ("https://api.weather.com", f"http://127.0.0.1:{server.port}")
        async with load("001_rest_tool.json", local, WEATHER_API_KEY="k3y-value") as runtime:
            outcome = await runtime.call("rest__weather", {"city": "São Tomé"})
            by_alias = await runtime.call("weather", {"city": "Porto"})
            missing = await runtime.call("rest__weather", {})

    assert outcome.data == {"method": "GET", "path": "/v1/S%C3%A3o%20Tom%C3%A9", "body": ""}
    assert by_alias.data["path"] == "/v1/Porto"
    assert missing.code == "invalid_arguments"
    assert server.asked[0].headers["authorization"] == "Bearer k3y-value"


async def test_all_keys_of_a_rest_tool_of_001_are_read(load):
    more = """"method": "POST", "bodyTemplate": "${parameters.filters}", "cache": 60000, "queue": "slow",
            "hasComplexQueryParams": true, "queryParamNames": ["q"],
            "streaming": {"mode": "json-stream", "linePrefix": "data: ", "timeoutMs": 2500},"""
    properties = '"city": { "type": "string", "description": "Which city" }, "filters": {}, "q": {}'
    changes = [
        ('"method": "GET",', more),
        ('"city": { "type": "string", "description": "Which city" }', properties),
        ('"description": "The weather', '"effects": ["read"], "description": "The weather'),
    ]

    def answer(asked):
        seen.append(asked)
        return reply('data: {"type": "token", "content": "su"}\ndata: {"type": "done", "answer": "sunny"}\n')

    seen = []
    async with serving(answer) as server:
        local = ("https://api.weather.com", f"http://127.0.0.1:{server.port}")
        async with load("001_rest_tool.json", local, *changes, WEATHER_API_KEY="k") as runtime:
            outcome = await runtime.call("rest__weather", {"city": "Porto", "filters": [{"a": 1}], "q": {"n": [1, 2]}})
            limits = runtime.catalogue.find("rest__weather").tool.limits

    assert outcome.data == "sunny"
    assert (seen[0].path, seen[0].body) == ("/v1/Porto?q[0][n][0]=1&q[0][n][1]=2", b'[{"a":1}]')
    assert (limits.cache.ttl, limits.timeout, limits.queue) == (60.0, 2.5, None)


def test_a_server_of_001_is_cached_for_milliseconds(load):
    [server] = load("001_server.json").providers

    assert (server.cache, server.options.deny) == (300.0, ("delete_repo",))


async def test_servers_without_a_command_or_url_are_left_out_with_a_warning(load, caplog):
    async with load("001_queues.json") as runtime:
        assert {name: queue.capacity for name, queue in runtime.queues().items()} == {"github": 3, "slow-api": 1}
        assert runtime.providers == []
    assert "001_queues.json:7: the MCP server github is left out: it has neither a command nor a url." in caplog.text


async def test_a_file_of_001_allows_ten_calls_a_turn_and_code_any_number(load):
    async with load("001_queues.json") as runtime:
        await runtime.add(note)
        turn = runtime.scope(user="ada", session="s", turn="t1")
        outcomes = [await turn.call("note") for _ in range(5)]
        outcomes += await runtime.call_many([Call("note", {}, user="ada", session="s", turn="t1") for _ in range(6)])
        assert [outcome.ok for outcome in outcomes] == [True] * 10 + [False]
        assert outcomes[-1].code == "limit_exceeded"
        assert (await runtime.scope(user="ada", session="s", turn="t2").call("note")).ok
        assert (await runtime.scope(user="bob", session="s", turn="t1").call("note")).ok
        assert (await runtime.call("note")).ok


async def test_code_has_no_limit_of_calls_a_turn():
    async with Runtime(note) as runtime:
        turn = runtime.scope(turn="t1")
        assert all([(await turn.call("note")).ok for _ in range(30)])


# 002


def test_the_limits_of_a_config_yml_hold(load):
    defaults = load("002_config.yml").defaults

    assert (defaults.tool_timeout, defaults.max_concurrent) == (30.0, 3)


def test_a_tools_mapping_without_a_limit_runs_three_calls_at_once(load):
    assert load("002_mcp_servers.yml").defaults.max_concurrent == 3
    assert load("002_config.yml", ("maxConcurrent: 3", "maxConcurrent: 7")).defaults.max_concurrent == 7


def test_the_servers_of_a_config_yml_are_those_that_are_enabled(load):
    assert [server.namespace for server in load("002_config.yml").providers] == ["filesystem"]
    assert [server.namespace for server in load("002_mcp_servers.yml").providers] == ["filesystem", "remote-tools"]


async def test_allowed_paths_restrict_the_file_tools_and_are_relative_to_the_file(load, tmp_path):
    for name in ("data", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)

    async with load("002_config.yml", NO_SERVERS) as runtime:
        assert (await runtime.call("read_file", {"path": "data/a.txt"})).data["content"] == "data"
        for path in ("secret/a.txt", "002_config.yml", "/etc/passwd"):
            outcome = await runtime.call("read_file", {"path": path})
            assert "Permission denied" in outcome.message
        assert (await runtime.call("read_file", {"path": "data/absent.txt"})).code == "not_found"


async def test_the_tools_of_a_config_yml_are_those_of_its_document(load):
    async with load("002_config.yml", NO_SERVERS) as runtime:
        shown = {entry["function"]["name"] for entry in runtime.describe("openai")}

    assert {"current_time", "sleep", "read_file", "write_file", "list_files", "delete_file", "move_file"} <= shown
    assert {"get_file_info", "edit_file", "grep_files", "http_get", "http_post", "http_request", "web_search"} <= shown
    assert {"json_parse", "json_stringify", "base64_encode", "base64_decode"} <= shown


async def test_a_search_key_that_is_not_set_costs_the_search_alone(load, caplog):
    async with load("002_config.yml", NO_SERVERS) as runtime:
        runtime.policy = []
        outcome = await runtime.call("web_search", {"query": "tea"})

    assert "WEB_SEARCH_API_KEY, which is not set" in caplog.text
    assert (outcome.code, outcome.executed) == ("unavailable", False)
    assert "WEB_SEARCH_API_KEY" in outcome.message


async def test_max_results_is_the_number_of_results_and_an_address_in_the_file_may_be_private(load, monkeypatch):
    only_loopback(monkeypatch)

    def answer(asked):
        wanted = json.loads(asked.body)["max_results"]
        found = [{"title": "A", "url": f"https://example.com/{number}", "content": "B"} for number in range(wanted)]
        return reply(json.dumps({"results": found}), content_type="application/json")

    async with serving(answer) as server:
        endpoint = f"maxResults: 4\n    endpoint: http://127.0.0.1:{server.port}/search"
        changes = [NO_SERVERS, ("maxResults: 10", endpoint)]
        async with load("002_config.yml", *changes, WEB_SEARCH_API_KEY="k") as runtime:
            runtime.policy = []
            assert (await runtime.call("web_search", {"query": "tea"})).data["totalResults"] == 4
            assert (await runtime.call("web_search", {"query": "tea", "limit": 2})).data["totalResults"] == 2
            assert (await runtime.call("web_search", {"query": "tea", "limit": 5})).code == "invalid_arguments"


def test_a_key_that_the_search_provider_does_not_need_is_left_out(load):
    runtime = load("002_config.yml", NO_SERVERS, ('provider: "tavily"', 'provider: "duckduckgo"'))

    assert runtime.catalogue.find("web_search") is not None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("timeout: 30000", "timeuot: 30000"), "yml:2: Unknown key 'timeuot'. Fix: did you mean 'timeout'?"),
        (("maxResults: 10", "maxResults: 50"), "yml:13: maxResults must be at most 20"),
        (('provider: "tavily"', 'provider: "hunter2"'), "yml:11: Unknown search engine"),
        (("tools:\n", "mcp_servers: {a: x}\ntools:\n"), "yml:16: There are two sections of MCP servers"),
        (("tools:\n", "workspace: {root: ., allowedPaths: [a]}\ntools:\n"), "yml:6: workspace has allowed paths too"),
    ],
)
def test_mistakes_in_a_config_yml_are_named_with_their_line(load, change, problem):
    with pytest.raises(ConfigError) as error:
        load("002_config.yml", change)

    assert problem in str(error.value)


async def test_allowed_paths_of_the_workspace_restrict_too(tmp_path):
    for name in ("data", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    (tmp_path / "surehand.yaml").write_text("workspace: {root: ., allowed_paths: data}\nbuiltin: [files]\n")

    async with assemble(read_config(tmp_path / "surehand.yaml"), environment={}) as runtime:
        assert (await runtime.call("read", {"file_path": "data/a.txt"})).ok
        assert (await runtime.call("read", {"file_path": "secret/a.txt"})).code == "denied"
