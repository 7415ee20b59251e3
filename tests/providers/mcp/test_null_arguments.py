"""Null for an optional parameter of an MCP tool, which its server is not sent."""

from mcp.server import MCPServer

from surehand import Runtime, mcp


async def test_null_for_an_optional_parameter_is_not_sent_to_the_server() -> None:
    server = MCPServer("shop", log_level="WARNING")

    @server.tool()
    def order(item: str, count: int = 3, note: str | None = "none") -> str:
        """Order."""
        return f"{count} {item}, {note}"

    async with Runtime(mcp.server(server, namespace="shop")) as runtime:
        left_out = await runtime.call("shop__order", '{"item": "tea", "count": null}')
        kept = await runtime.call("shop__order", {"item": "tea", "note": None})
        required = await runtime.call("shop__order", {"item": None})

    assert left_out.text == "3 tea, none"
    assert kept.text == "3 tea, None"  # the server's schema accepts null here
    assert required.text.startswith('(tool failed: invalid arguments: `item`: null is not of type "string".')
