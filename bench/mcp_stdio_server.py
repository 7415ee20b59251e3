"""A minimal MCP server in plain Python over stdin and stdout, in both protocol versions.

It is so fast that the cost of the client dominates. Usage: python -I -S mcp_stdio_server.py [number of tools]
"""

import json
import sys
from typing import Any

MODERN_VERSION = "2026-07-28"
INPUT_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
OUTPUT_SCHEMA = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
SERVER_INFO: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
STDOUT = sys.stdout.buffer


def list_tools(number: int) -> list[dict[str, Any]]:
    names = ["add", *(f"add_{each}" for each in range(1, number))]
    return [
        {"name": name, "description": "Add two numbers.", "inputSchema": INPUT_SCHEMA, "outputSchema": OUTPUT_SCHEMA}
        for name in names
    ]


def answer_method(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "tools/call":
        result = params["arguments"]["a"] + params["arguments"]["b"]
        return {"content": [{"type": "text", "text": str(result)}], "structuredContent": {"result": result}}
    if method == "tools/list":
        return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], **SERVER_INFO}
    if method == "server/discover":
        return {"supportedVersions": [MODERN_VERSION], "ttlMs": 0, "cacheScope": "private", **SERVER_INFO}
    return None


def answer_request(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    result = answer_method(message["method"], params)
    if result is None:
        return {"error": {"code": -32601, "message": f"unknown method {message['method']}"}}
    is_modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
    return {"result": {**result, "resultType": "complete"} if is_modern else result}


if __name__ == "__main__":
    TOOLS = list_tools(int(sys.argv[1]) if sys.argv[1:] else 1)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            STDOUT.write(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer_request(message)}).encode() + b"\n"
            )
            STDOUT.flush()
