"""An MCP server in plain Python over stdin and stdout, in both protocols: so fast that the client's own cost shows.

python -I -S mcp_plain.py [number of tools]
"""

import json
import sys
from typing import Any

NEWER = "2026-07-28"
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
GIVES = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
ABOUT: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
OUT = sys.stdout.buffer


def tools(number: int) -> list[dict[str, Any]]:
    names = ["add", *(f"add_{each}" for each in range(1, number))]
    return [
        {"name": name, "description": "Add two numbers.", "inputSchema": OPEN, "outputSchema": GIVES} for name in names
    ]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "tools/call":
        result = params["arguments"]["a"] + params["arguments"]["b"]
        return {"content": [{"type": "text", "text": str(result)}], "structuredContent": {"result": result}}
    if method == "tools/list":
        return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], **ABOUT}
    if method == "server/discover":
        return {"supportedVersions": [NEWER], "ttlMs": 0, "cacheScope": "private", **ABOUT}
    return None


def reply(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    result = answer(message["method"], params)
    if result is None:
        return {"error": {"code": -32601, "message": f"no method {message['method']}"}}
    newer = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
    return {"result": {**result, "resultType": "complete"} if newer else result}


if __name__ == "__main__":
    TOOLS = tools(int(sys.argv[1]) if sys.argv[1:] else 1)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            OUT.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply(message)}).encode() + b"\n")
            OUT.flush()
