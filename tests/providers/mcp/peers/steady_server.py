"""A server in plain Python that starts at once, works on several calls at a time, and records them in a folder.

    python steady_server.py FOLDER [modern | legacy]

`starts`, `effects` and `cancelled` have one line per event. `tools.json`, if it exists, sets its tools. The file `down`
keeps it from starting, and `deaf` from answering. It speaks both protocols unless an argument selects one.
Tests start it hundreds of times, so it imports little: neither `pathlib` nor `typing`.
"""

from __future__ import annotations

import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = sys.argv[1]
ERA = (sys.argv[2:] or ["both"])[0]
STDOUT = sys.stdout.buffer
LOCK = threading.Lock()
PENDING_QUESTIONS: dict[Any, tuple[threading.Event, list[Any]]] = {}
CANCEL_EVENTS: dict[Any, threading.Event] = {}
MODERN = "2026-07-28"
INFO = {"name": "steady", "version": "1.0"}
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}}
FORM = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "times": {"type": "integer"}},
    "required": ["sure"],
}


def path_of(name: str) -> str:
    return os.path.join(FOLDER, name)


def append_line(name: str, line: object) -> None:
    with LOCK, open(path_of(name), "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def send(message: dict[str, Any]) -> None:
    with LOCK:
        STDOUT.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        STDOUT.flush()


def tool(name: str, /, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"name": name, "description": description or f"The tool {name}.", "inputSchema": schema}


TOOLS = [
    tool("echo", text="string"), tool("pid"), tool("effect", text="string"), tool("wait", text="string"),
    tool("die", text="string"), tool("steps", count="integer", seconds="number"), tool("ask", text="string"),
    tool("ask_twice"), tool("ask_late", text="string"), tool("ask_briefly", text="string"), tool("open_url"),
    tool("environment", name="string"), tool("change", text="string"),
]  # fmt: skip


def current_tools() -> list[dict[str, Any]]:
    if not os.path.exists(path_of("tools.json")):
        return TOOLS
    with open(path_of("tools.json"), encoding="utf-8") as file:
        return json.load(file)


def text_result(said: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(said)}]}


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": message["id"], "result": {"resultType": "complete", **result} if is_modern(message) else result})


def is_modern(message: dict[str, Any]) -> bool:
    meta = (message.get("params") or {}).get("_meta") or {}
    return meta.get("io.modelcontextprotocol/protocolVersion") == MODERN


def ask_and_wait(number: object, message: dict[str, Any], params: dict[str, Any]) -> Any:
    """Send an elicitation during the call, as the handshake protocol does, and wait for the answer."""
    key = f"question-{message['id']}-{number}"
    event, given = PENDING_QUESTIONS[key] = threading.Event(), []
    send({"id": key, "method": "elicitation/create", "params": params})
    event.wait()
    return given[0]


def ask_questions(message: dict[str, Any], questions: list[dict[str, Any]]) -> None:
    params = message["params"]
    if not is_modern(message):
        given = [ask_and_wait(number, message, question) for number, question in enumerate(questions)]
        if any("action" not in each for each in given):  # the client has no one to ask
            return answer(message, {**text_result("nobody to ask"), "isError": True})
        append_line("effects", "asked")
        return answer(message, text_result(json.dumps(given)))
    done = json.loads(params.get("requestState") or "[]")
    done += [params["inputResponses"]["q"]] if params.get("inputResponses") else []
    if len(done) < len(questions):
        question = {"method": "elicitation/create", "params": questions[len(done)]}
        wanted = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": json.dumps(done)}
        return send({"id": message["id"], "result": wanted})
    append_line("effects", "asked")
    return answer(message, text_result(json.dumps(done)))


def call_tool(message: dict[str, Any]) -> None:
    params = message["params"]
    name, given = params["name"], params.get("arguments") or {}
    cancelled = CANCEL_EVENTS[message["id"]] = threading.Event()
    form = {"mode": "form", "message": f"Sure about {given.get('text')}?", "requestedSchema": FORM}
    if name == "echo":
        answer(message, text_result(given["text"]))
    elif name == "pid":
        answer(message, text_result(os.getpid()))
    elif name == "effect":
        append_line("effects", given["text"])
        answer(message, text_result("done"))
    elif name == "wait":
        append_line("effects", given["text"])
        if cancelled.wait(60):
            append_line("cancelled", given["text"])
    elif name == "die":
        append_line("effects", given["text"])
        print("something is wrong", file=sys.stderr, flush=True)
        os._exit(7)
    elif name == "steps":
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(1, given["count"] + 1):
            if cancelled.wait(given["seconds"]):
                append_line("cancelled", "steps")
                return
            progress = {"progressToken": token, "progress": step, "total": given["count"], "message": f"step {step}"}
            send({"method": "notifications/progress", "params": progress})
        answer(message, text_result("stepped"))
    elif name == "ask":
        ask_questions(message, [form])
    elif name == "ask_late":
        append_line("late", given["text"])
        while not os.path.exists(path_of("ask now")):
            cancelled.wait(0.01)
        ask_questions(message, [form])
    elif name == "ask_briefly":
        send({"id": f"brief-{message['id']}", "method": "elicitation/create", "params": form})
        PENDING_QUESTIONS[f"brief-{message['id']}"] = threading.Event(), []
        while not os.path.exists(path_of("give up")):
            cancelled.wait(0.01)
        append_line("effects", "gave-up")
        answer(message, text_result("without you"))
    elif name == "ask_twice":
        ask_questions(message, [form, form])
    elif name == "open_url":
        ask_questions(
            message, [{"mode": "url", "message": "Sign in.", "url": "https://example.com/in", "elicitationId": "1"}]
        )
    elif name == "environment":
        answer(message, text_result(os.environ.get(given["name"])))
    elif name == "change":
        with open(path_of("new.json"), "w", encoding="utf-8") as file:
            file.write(given["text"])
        os.replace(path_of("new.json"), path_of("tools.json"))
        if not is_modern(message):
            send({"method": "notifications/tools/list_changed"})
        for key in SUBSCRIPTIONS:
            meta = {"io.modelcontextprotocol/subscriptionId": key}
            send({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
        answer(message, text_result("changed"))
    else:
        send({"id": message["id"], "error": {"code": -32602, "message": f"no tool {name}"}})


SUBSCRIPTIONS: list[Any] = []


def handle_message(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method is None:
        event, given = PENDING_QUESTIONS.pop(message["id"])
        given.append(message.get("result") or message.get("error"))
        event.set()
    elif method == "notifications/cancelled":
        if (cancelled := CANCEL_EVENTS.get(params.get("requestId"))) is not None:
            cancelled.set()
    elif "id" not in message or os.path.exists(path_of("deaf")):
        pass
    elif method == "tools/call":
        threading.Thread(target=call_tool, args=(message,), daemon=True).start()
    elif method == "tools/list":
        append_line("lists", "tools")
        answer(
            message, {"tools": current_tools(), **({"ttlMs": 0, "cacheScope": "private"} if is_modern(message) else {})}
        )
    elif method == "prompts/list":
        prompts = [{"name": "greet", "description": "Say hello."}]
        answer(message, {"prompts": prompts, **({"ttlMs": 0, "cacheScope": "private"} if is_modern(message) else {})})
    elif method == "ping":
        answer(message, {})
    elif method == "initialize" and ERA != "modern":
        version = {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": INFO}
        answer(message, {**version, "instructions": "Be steady."})
    elif method == "server/discover" and ERA != "legacy":
        about = {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "instructions": "Be steady."}
        meta = {"_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
        send(
            {
                "id": message["id"],
                "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **about, **meta},
            }
        )
    elif method == "subscriptions/listen":
        SUBSCRIPTIONS.append(message["id"])
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        send({"method": "notifications/subscriptions/acknowledged", "params": params})
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})


if __name__ == "__main__":
    append_line("starts", os.getpid())
    if os.path.exists(path_of("down")):
        print("it is down today", file=sys.stderr)
        sys.exit(1)
    for line in sys.stdin.buffer:
        handle_message(json.loads(line))
