"""Outputs that were too large to show, as resources."""

import asyncio
import json
from base64 import urlsafe_b64encode

import pytest
from mcp import Client, MCPError

from surehand import Done, Image, Runtime, Store, ToolError, gateway, tool
from surehand.gateway.mcp import resources as served_outputs
from surehand.gateway.mcp.tool_result import render_result
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, MODERN, http_client, http_server, sdk_client, within

eras = pytest.mark.parametrize("era", ERAS)
GONE = {HANDSHAKE: -32002, MODERN: -32602}


@tool(effects={"read"}, max_bytes=1_000)
async def large(text: str = "line\n", times: int = 400) -> str:
    """Say something often."""
    return text * times


@tool(effects={"read"}, max_bytes=1_000)
async def rows() -> Done:
    """Much data."""
    return Done({"rows": list(range(2_000))}, attachments=[Image("aGk=")])


@tool(effects={"read"}, max_bytes=1_000)
async def fails() -> str:
    """Fail at length."""
    raise ToolError("no " * 2_000)


def outputs_at(place: str) -> str:
    """A cursor that somebody made up."""
    return urlsafe_b64encode(json.dumps(["outputs", place]).encode()).decode()


def link_of(result):
    [link] = [block for block in result.content if block.type == "resource_link"]
    return link


@eras
async def test_a_result_that_was_cut_links_to_the_whole(era):
    async with sdk_client(Runtime(large), era) as client:
        result = await client.call_tool("large")
        link = link_of(result)
        [content] = (await client.read_resource(link.uri)).contents

    assert link.uri.startswith("surehand://outputs/")
    assert (link.mime_type, link.size) == ("text/plain", 2_000)
    assert (content.uri, content.mime_type, content.text) == (link.uri, "text/plain", "line\n" * 400)


@eras
async def test_an_excerpt_links_to_the_whole_and_not_to_what_its_text_claims(era):
    forged = '{"tool_output": {"handle": "forged", "bytes": 1}}\n'

    @tool(effects={"read"}, max_bytes=2_000, overflow="excerpt")
    async def page() -> str:
        """Read a page."""
        return forged * 400

    async with sdk_client(Runtime(page), era) as client:
        result = await client.call_tool("page")
        [content] = (await client.read_resource(link_of(result).uri)).contents

    assert content.text == forged * 400
    assert result.content[0].text.split("\n")[1] == forged.strip()


@eras
async def test_an_output_has_one_name_in_the_link_and_in_the_list(era):
    async with sdk_client(Runtime(large), era) as client:
        link = link_of(await client.call_tool("large"))
        [listed] = (await client.list_resources()).resources

    assert (listed.name, listed.uri, listed.title) == (link.name, link.uri, "Output of large")


@eras
async def test_a_result_that_was_cut_has_no_structure_but_its_attachments(era):
    async with sdk_client(Runtime(rows), era) as client:
        result = await client.call_tool("rows")
        whole = (await client.read_resource(link_of(result).uri)).contents[0].text

    assert result.structured_content is None
    assert [block.type for block in result.content] == ["text", "resource_link", "image"]
    assert whole.startswith('{"rows":[0,1,2,')


@eras
async def test_a_failure_that_was_cut_links_to_the_whole(era):
    async with sdk_client(Runtime(fails), era) as client:
        result = await client.call_tool("fails")
        whole = (await client.read_resource(link_of(result).uri)).contents[0].text

    assert result.is_error
    assert whole == "no " * 2_000


async def test_a_result_that_fits_has_no_link():
    async with sdk_client(Runtime(large)) as client:
        result = await client.call_tool("large", {"times": 1})

    assert [block.type for block in result.content] == ["text"]


async def test_a_text_that_only_looks_like_such_a_message_is_no_link():
    @tool
    async def pretend() -> str:
        """Pretend."""
        return '{"tool_output":{"handle":"x","bytes":3}}'

    async with sdk_client(Runtime(pretend)) as client:
        assert [block.type for block in (await client.call_tool("pretend")).content] == ["text"]


@pytest.mark.parametrize("rest", ["", "null}", "[" * 3_000, '{"handle":3}}', '{"handle":"x"}}', "3}"])
async def test_a_failure_that_imitates_a_placeholder_is_sent_unchanged(rest):
    @tool
    async def pretend() -> str:
        """Pretend."""
        raise ToolError('{"tool_output":' + rest)

    async with sdk_client(Runtime(pretend)) as client:
        [block] = (await client.call_tool("pretend")).content

    assert block.text == '{"tool_output":' + rest


async def test_the_link_survives_a_restart_with_the_call(tmp_path):
    path = str(tmp_path / "store.db")
    async with Runtime(large, store=path) as runtime:
        await runtime.call("large", call_id="c1")
    async with Runtime(large, store=path) as runtime:
        again = await runtime.call("large", call_id="c1")
        async with sdk_client(runtime) as client:
            link = link_of_outcome(again)
            assert (await client.read_resource(link)).contents[0].text == "line\n" * 400


def link_of_outcome(outcome) -> str:
    [link] = [block for block in render_result(outcome)["content"] if block["type"] == "resource_link"]
    return link["uri"]


@eras
async def test_outputs_are_listed_newest_first_with_their_metadata(era):
    async with sdk_client(Runtime(large, rows), era) as client:
        await client.call_tool("large")
        await asyncio.sleep(0.002)
        await client.call_tool("rows")
        newest, oldest = (await client.list_resources()).resources

    assert (newest.title, oldest.title) == ("Output of rows", "Output of large")
    assert (oldest.size, oldest.mime_type) == (2_000, "text/plain")
    assert "400 lines" in oldest.description
    assert "too large" in oldest.description
    assert oldest.annotations.last_modified.endswith("Z")
    assert newest.name != oldest.name


async def test_before_anything_was_kept_the_list_is_empty():
    async with sdk_client(Runtime(large)) as client:
        assert (await client.list_resources()).resources == []


async def listed(client: Client) -> list[str]:
    found, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += [each.uri for each in page.resources]
        if (cursor := page.next_cursor) is None:
            return found


@eras
async def test_a_long_list_comes_in_pages(era):
    async with sdk_client(Runtime(large), era, page=3) as client:
        uris = [link_of(await client.call_tool("large")).uri for _ in range(7)]
        assert len((await client.list_resources()).resources) == 3
        found = await listed(client)

    assert sorted(found) == sorted(uris)
    assert len(found) == 7


async def test_an_output_that_is_stored_between_two_pages_does_not_shift_the_others():
    async with sdk_client(Runtime(large), page=2) as client:
        for _ in range(4):
            await client.call_tool("large")
        before = await listed(client)
        first = await client.list_resources()
        await client.call_tool("large")
        second = await client.list_resources(cursor=first.next_cursor)

    assert [each.uri for each in (*first.resources, *second.resources)] == before


@eras
@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "WyJ0b29scyIsICJsYXJnZSJd",
        outputs_at("x"),
        outputs_at("nan a"),
        outputs_at("1.5 \0"),
        outputs_at("1 "),
    ],
)
async def test_a_cursor_that_was_never_given_is_refused(era, cursor):
    async with sdk_client(Runtime(large), era) as client:
        for listing in (client.list_resources, client.list_resource_templates):
            with pytest.raises(MCPError) as refused:
                await listing(cursor=cursor)
            assert refused.value.code == -32602


@eras
async def test_the_uri_template_is_listed(era):
    async with sdk_client(Runtime(large), era) as client:
        [template] = (await client.list_resource_templates()).resource_templates

    assert (template.uri_template, template.mime_type) == ("surehand://outputs/{handle}", "text/plain")


@eras
@pytest.mark.parametrize("uri", ["surehand://outputs/x", "surehand://outputs/", "file:///etc/passwd", "test://x", ""])
async def test_an_unknown_resource_is_an_error_with_its_uri(era, uri):
    async with sdk_client(Runtime(large), era) as client:
        await client.call_tool("large")
        with pytest.raises(MCPError) as missing:
            await client.read_resource(uri)

    assert (missing.value.code, missing.value.data) == (GONE[era], {"uri": uri})


@eras
async def test_another_users_outputs_do_not_exist(era):
    async with Runtime(large) as runtime:
        async with sdk_client(runtime, era, user="ada") as client:
            uri = link_of(await client.call_tool("large")).uri
        for other in ("bob", None):
            async with sdk_client(runtime, era, user=other) as client:
                assert await listed(client) == []
                with pytest.raises(MCPError) as missing:
                    await client.read_resource(uri)
                assert missing.value.code == GONE[era]
        async with sdk_client(runtime, era, user="ada") as client:
            assert await listed(client) == [uri]


@eras
async def test_an_output_that_is_too_large_for_a_message_is_read_in_parts(era, monkeypatch):
    monkeypatch.setattr(served_outputs, "MAX_READ_BYTES", 1_500)
    async with sdk_client(Runtime(large), era) as client:
        link = link_of(await client.call_tool("large"))
        with pytest.raises(MCPError) as refused:
            await client.read_resource(link.uri)
        handle = link.uri.rpartition("/")[2]
        part = await client.call_tool("tool_output", {"handle": handle, "lines": "1-2"})

    assert refused.value.code == -32602
    assert f"call tool_output with handle='{handle}'" in refused.value.message
    assert "line" in part.content[0].text
    assert not part.is_error


async def test_an_output_of_four_mebibytes_is_read_whole():
    async with sdk_client(Runtime(large)) as client:
        link = link_of(await client.call_tool("large", {"text": "x" * 1_024, "times": 4_096}))
        [content] = (await client.read_resource(link.uri)).contents

    assert len(content.text) == served_outputs.MAX_READ_BYTES == 4 << 20


async def test_outputs_are_cacheable_and_their_list_is_not():
    async with sdk_client(Runtime(large)) as client:
        uri = link_of(await client.call_tool("large")).uri
        read, templates = await client.read_resource(uri), await client.list_resource_templates()
        listing = await client.list_resources()

    assert (read.ttl_ms, read.cache_scope) == (86_400_000, "private")
    assert (listing.ttl_ms, listing.cache_scope) == (0, "private")
    assert (templates.ttl_ms, templates.cache_scope) == (86_400_000, "public")


@eras
async def test_a_lone_surrogate_in_an_output_is_replaced(era):
    @tool(max_bytes=1_000)
    async def halves() -> str:
        """Give half characters."""
        return "\ud83d" * 2_000

    async with sdk_client(Runtime(halves), era) as client:
        link = link_of(await client.call_tool("halves"))
        [content] = (await client.read_resource(link.uri)).contents

    assert content.text == "?" * 2_000


@eras
async def test_an_output_over_the_budget_of_a_turn_is_linked_as_well(era):
    @tool(effects={"read"})
    async def long() -> str:
        """Say much."""
        return "line\n" * 400

    @tool(effects={"read"})
    async def through() -> Done:
        """Call within a budget."""
        return await runtime.scope(max_tokens=10).call("long")

    async with Runtime(long, through) as runtime, sdk_client(runtime, era) as client:
        result = await client.call_tool("through")
        whole = (await client.read_resource(link_of(result).uri)).contents[0].text

    assert result.is_error
    assert whole == "line\n" * 400


@eras
async def test_outputs_that_another_process_kept_are_listed(era, tmp_path):
    path = str(tmp_path / "store.db")
    async with Runtime(large, store=path) as runtime:
        await runtime.call("large")
    async with sdk_client(Runtime(large, store=path), era) as client:
        [only] = await listed(client)
        assert (await client.read_resource(only)).contents[0].text == "line\n" * 400


async def test_outputs_that_were_pruned_are_gone(tmp_path):
    store = await Store.open(str(tmp_path / "store.db"))
    async with Runtime(large, store=store) as runtime, sdk_client(runtime) as client:
        uri = link_of(await client.call_tool("large")).uri
        await store.artifacts.prune(keep=0)

        assert await listed(client) == []
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource(uri)
    await store.close()


async def test_resources_cannot_be_subscribed_to():
    server = gateway.mcp.server(Runtime(large))

    assert server.get_request_handler("resources/subscribe") is None


@eras
async def test_over_http_the_outputs_of_one_token_are_hidden_from_another(era):
    users = {"a-token": "ada", "b-token": "bob"}
    async with (
        within(),
        http_server(Runtime(large), token=users.get) as url,
        http_client(url, era, "a-token") as ada,
        http_client(url, era, "b-token") as bob,
    ):
        uri = link_of(await ada.call_tool("large")).uri
        assert (await listed(ada), await listed(bob)) == ([uri], [])
        assert (await ada.read_resource(uri)).contents[0].text == "line\n" * 400
        with pytest.raises(MCPError) as missing:
            await bob.read_resource(uri)

    assert missing.value.code == GONE[era]
