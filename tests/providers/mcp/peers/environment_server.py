"""A server in plain Python that starts at once. Its tool `told` returns environment variables and its last argument."""

import json
import os
import sys
from typing import Any

TOLD_TOOL = {
    "name": "told",
    "description": "What some variables are, and the last word of the command.",
    "inputSchema": {
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string"}}},
        "required": ["names"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "speaking", "version": "1.2.3"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [TOLD_TOOL]}
    if method == "tools/call":
        found = [*(os.environ.get(name) for name in params["arguments"]["names"]), sys.argv[-1]]
        return {"content": [], "structuredContent": {"result": found}}
    return {} if method == "ping" else None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        found = answer(request["method"], request.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "unknown"}} if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
