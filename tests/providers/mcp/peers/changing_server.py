"""A server whose answers stand in a file, so that a test can change them.

    python changing_server.py STATE

`STATE` is a JSON file with `tools`, and optionally `prompts` and `instructions`. It appends calls to `STATE.calls`.
"""

import json
import sys
from pathlib import Path
from typing import Any

STATE = Path(sys.argv[1])


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    state = json.loads(STATE.read_text())
    match method:
        case "initialize":
            about = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "fickle", "version": "1"}}
            return {
                **about,
                "capabilities": {"tools": {}, "prompts": {}},
                "instructions": state.get("instructions", ""),
            }
        case "tools/list":
            return {"tools": state["tools"]}
        case "prompts/list":
            return {"prompts": state.get("prompts", [])}
        case "tools/call":
            with open(f"{STATE}.calls", "a", encoding="utf-8") as calls:
                calls.write(f"{params['name']}\n")
            return {"content": [{"type": "text", "text": "done"}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        answer = result(message["method"], message.get("params") or {})
        response = {"error": {"code": -32601, "message": "unknown"}} if answer is None else {"result": answer}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **response}), flush=True)
