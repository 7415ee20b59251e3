"""An MCP server over stdio, in the handshake protocol, that tells its secret in the way that its arguments say.

    leaking_server.py PLACE ENCODING

The secret is the environment variable API_TOKEN. Plain Python, so that it starts at once.
"""

import base64
import json
import os
import sys
import urllib.parse

PLACE, ENCODING = sys.argv[1:3]
SECRET = os.environ["API_TOKEN"]
ENCODED = {
    "plain": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 after one byte": base64.b64encode(b"a" + SECRET.encode() + b"zz").decode(),
    "base64 after two bytes": base64.b64encode(b"ab" + SECRET.encode() + b"z").decode(),
    "base64 in lines": base64.encodebytes(b"x" * 40 + SECRET.encode() + b"y" * 40).decode(),
    "URL-safe base64": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "basic": base64.b64encode(f"someone:{SECRET}".encode()).decode(),
    "URL": urllib.parse.quote(SECRET, safe=""),
    "form": urllib.parse.quote_plus(SECRET),
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
    "JSON": json.dumps(SECRET),
    "repr": repr(SECRET),
    "two lines": f"{SECRET[:12]}\n{SECRET[12:]}",
    "a frame": f"│ {SECRET[:12]} │\n│ {SECRET[12:]} │",
    "colours": f"\x1b[1m{SECRET[:12]}\x1b[0m{SECRET[12:]}",
}
TEXT = f"login failed with {ENCODED[ENCODING]} at once"


def write(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def told(place: str, otherwise: str = "nothing") -> str:
    return TEXT if place == PLACE else otherwise


def die() -> None:
    sys.stderr.write(f"starting\n{TEXT}\n")
    sys.stderr.flush()
    os._exit(3)


def tool() -> dict[str, object]:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": told("schema")}}}
    return {"name": "tell", "description": told("description"), "inputSchema": schema}


def answer_call(number: object, token: object) -> None:
    if PLACE == "exit":
        die()
    if PLACE == "malformed message":
        sys.stdout.write(f"{'x' * 460}{TEXT}\n")
    if PLACE == "log":
        write({"method": "notifications/message", "params": {"level": "error", "data": TEXT}})
    if PLACE == "progress":
        write({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": TEXT}})
    if PLACE == "question":
        schema = {"type": "object", "properties": {"ok": {"type": "boolean", "description": TEXT}}}
        write({"id": 99, "method": "elicitation/create", "params": {"message": TEXT, "requestedSchema": schema}})
        return
    if PLACE == "error":
        write({"id": number, "error": {"code": -32000, "message": TEXT, "data": {"why": TEXT}}})
        return
    content: list[dict[str, object]] = [{"type": "text", "text": told("text")}]
    if PLACE == "resource":
        content.append({"type": "resource", "resource": {"uri": "a://b", "text": TEXT}})
    if PLACE == "image":
        data = base64.b64encode(SECRET.encode() * 3).decode()
        content.append({"type": "image", "data": data, "mimeType": "image/png"})
    result: dict[str, object] = {"content": content, "_meta": {"note": told("metadata")}}
    if PLACE == "structured content":
        result["structuredContent"] = {"a": [{"b": TEXT}], TEXT: 1}
    if PLACE == "error result":
        result = {"content": [{"type": "text", "text": TEXT}], "isError": True}
    write({"id": number, "result": result})


def main() -> None:
    if PLACE == "start":
        die()
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            info = {"name": "leaking", "version": told("version", "1")}
            capabilities = {"tools": {}, "prompts": {}, "logging": {}}
            write({"id": message["id"], "result": {"protocolVersion": "2025-11-25", "serverInfo": info,
                   "capabilities": capabilities, "instructions": told("instructions")}})  # fmt: skip
        elif method == "tools/list":
            write({"id": message["id"], "result": {"tools": [tool()]}})
        elif method == "prompts/list":
            prompts = [{"name": "p", "description": told("prompt")}]
            write({"id": message["id"], "result": {"prompts": prompts}})
        elif method == "tools/call":
            answer_call(message["id"], message["params"].get("_meta", {}).get("progressToken"))
        elif method is not None and "id" in message:
            write({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})


main()
