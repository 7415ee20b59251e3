"""A server that is an object of the MCP SDK in this process."""

import importlib.util

import pytest
from mcp import Client
from mcp.server import MCPServer, Server

from surehand.core.errors import DefinitionError
from surehand.providers.mcp.addresses.in_process import InProcessAddress
from surehand.providers.mcp.connection_errors import failure_from_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from tests.providers.mcp.peers import FOLDER


def friendly():
    spec = importlib.util.spec_from_file_location("friendly", FOLDER / "friendly_server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.server("My Server!")


@pytest.mark.parametrize(("mode", "protocol"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_an_object_works_in_both_protocols_and_more_than_once(mode, protocol):
    address = InProcessAddress(friendly())

    for _ in range(2):
        (target,) = address.create_transports(ConnectionOwner(), print)
        async with Client(target, mode=mode) as client:
            assert client.protocol_version == protocol
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            assert (await client.call_tool("nobody", {})).is_error


def test_label_and_namespace_come_from_the_servers_name():
    address = InProcessAddress(friendly())

    assert (address.label, address.identity, address.namespace) == (
        "My Server! (in this process)",
        "memory:My Server!",
        "My-Server",
    )
    assert InProcessAddress(Server("low")).namespace == "low"


@pytest.mark.parametrize("thing", [object(), MCPServer, "server"])
def test_only_a_server_object_of_the_sdk_is_accepted(thing):
    with pytest.raises(DefinitionError, match="is not a server object of the MCP SDK"):
        InProcessAddress(thing)


async def test_an_in_process_server_has_no_exit_report():
    address = InProcessAddress(Server("low"))

    assert address.exit_report() == ""
    assert not address.should_try_next_transport(ValueError())
    assert failure_from_error(ValueError("odd")).message == "The connection to the server failed: ValueError: odd."
