"""A server in plain Python that starts at once, works on several calls at a time, and leaves traces in a folder.

    python steady.py FOLDER [modern | legacy]

`starts`, `effects` and `cancelled` are lists of what happened, one line each; `tools.json`, if it is there, is what it
offers; `down` keeps it from starting, `deaf` from answering. It speaks both protocols unless it is told which.
It is started hundreds of times, and so imports little: neither `pathlib` nor `typing`.
"""

from __future__ import annotations

import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER, ERA = sys.argv[1], (sys.argv[2:] or ["both"])[0]
OUT, LOCK = sys.stdout.buffer, threading.Lock()
WAITING: dict[Any, tuple[threading.Event, list[Any]]] = {}
STOPPED: dict[Any, threading.Event] = {}
MODERN = "2026-07-28"
INFO = {"name": "steady", "version": "1.0"}
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}}
FORM = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "times": {"type": "integer"}},
    "required": ["sure"],
}


def place(name: str) -> str:
    return os.path.join(FOLDER, name)


def trace(name: str, line: object) -> None:
    with LOCK, open(place(name), "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def send(message: dict[str, Any]) -> None:
    with LOCK:
        OUT.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        OUT.flush()


def tool(name: str, /, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"name": name, "description": description or f"The tool {name}.", "inputSchema": schema}


TOOLS = [
    tool("echo", text="string"), tool("pid"), tool("effect", text="string"), tool("wait", text="string"),
    tool("die", text="string"), tool("steps", count="integer", seconds="number"), tool("ask", text="string"),
    tool("ask_twice"), tool("ask_late", text="string"), tool("ask_briefly", text="string"), tool("open_url"),
    tool("environment", name="string"), tool("change", text="string"),
]  # fmt: skip


def offered() -> list[dict[str, Any]]:
    if not os.path.exists(place("tools.json")):
        return TOOLS
    with open(place("tools.json"), encoding="utf-8") as file:
        return json.load(file)


def text(said: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(said)}]}


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": message["id"], "result": {"resultType": "complete", **result} if is_modern(message) else result})


def is_modern(message: dict[str, Any]) -> bool:
    meta = (message.get("params") or {}).get("_meta") or {}
    return meta.get("io.modelcontextprotocol/protocolVersion") == MODERN


def asked(number: object, message: dict[str, Any], params: dict[str, Any]) -> Any:
    """Ask in the middle of the work, as it was done before 2026."""
    key = f"question-{message['id']}-{number}"
    event, given = WAITING[key] = threading.Event(), []
    send({"id": key, "method": "elicitation/create", "params": params})
    event.wait()
    return given[0]


def ask(message: dict[str, Any], questions: list[dict[str, Any]]) -> None:
    params = message["params"]
    if not is_modern(message):
        given = [asked(number, message, question) for number, question in enumerate(questions)]
        if any("action" not in each for each in given):  # nobody was there to be asked
            return answer(message, {**text("nobody to ask"), "isError": True})
        trace("effects", "asked")
        return answer(message, text(json.dumps(given)))
    done = json.loads(params.get("requestState") or "[]")
    done += [params["inputResponses"]["q"]] if params.get("inputResponses") else []
    if len(done) < len(questions):
        question = {"method": "elicitation/create", "params": questions[len(done)]}
        wanted = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": json.dumps(done)}
        return send({"id": message["id"], "result": wanted})
    trace("effects", "asked")
    return answer(message, text(json.dumps(done)))


def called(message: dict[str, Any]) -> None:
    params = message["params"]
    name, given = params["name"], params.get("arguments") or {}
    stopped = STOPPED[message["id"]] = threading.Event()
    form = {"mode": "form", "message": f"Sure about {given.get('text')}?", "requestedSchema": FORM}
    if name == "echo":
        answer(message, text(given["text"]))
    elif name == "pid":
        answer(message, text(os.getpid()))
    elif name == "effect":
        trace("effects", given["text"])
        answer(message, text("done"))
    elif name == "wait":
        trace("effects", given["text"])
        if stopped.wait(60):
            trace("cancelled", given["text"])
    elif name == "die":
        trace("effects", given["text"])
        print("something is wrong", file=sys.stderr, flush=True)
        os._exit(7)
    elif name == "steps":
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(1, given["count"] + 1):
            if stopped.wait(given["seconds"]):
                trace("cancelled", "steps")
                return
            told = {"progressToken": token, "progress": step, "total": given["count"], "message": f"step {step}"}
            send({"method": "notifications/progress", "params": told})
        answer(message, text("stepped"))
    elif name == "ask":
        ask(message, [form])
    elif name == "ask_late":
        trace("late", given["text"])
        while not os.path.exists(place("ask now")):
            stopped.wait(0.01)
        ask(message, [form])
    elif name == "ask_briefly":
        send({"id": f"brief-{message['id']}", "method": "elicitation/create", "params": form})
        WAITING[f"brief-{message['id']}"] = threading.Event(), []
        while not os.path.exists(place("give up")):
            stopped.wait(0.01)
        trace("effects", "gave-up")
        answer(message, text("without you"))
    elif name == "ask_twice":
        ask(message, [form, form])
    elif name == "open_url":
        ask(message, [{"mode": "url", "message": "Sign in.", "url": "https://example.com/in", "elicitationId": "1"}])
    elif name == "environment":
        answer(message, text(os.environ.get(given["name"])))
    elif name == "change":
        with open(place("new.json"), "w", encoding="utf-8") as file:
            file.write(given["text"])
        os.replace(place("new.json"), place("tools.json"))
        if not is_modern(message):
            send({"method": "notifications/tools/list_changed"})
        for key in LISTENING:
            meta = {"io.modelcontextprotocol/subscriptionId": key}
            send({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
        answer(message, text("changed"))
    else:
        send({"id": message["id"], "error": {"code": -32602, "message": f"no tool {name}"}})


LISTENING: list[Any] = []


def heard(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method is None:
        event, given = WAITING.pop(message["id"])
        given.append(message.get("result") or message.get("error"))
        event.set()
    elif method == "notifications/cancelled":
        if (stopped := STOPPED.get(params.get("requestId"))) is not None:
            stopped.set()
    elif "id" not in message or os.path.exists(place("deaf")):
        pass
    elif method == "tools/call":
        threading.Thread(target=called, args=(message,), daemon=True).start()
    elif method == "tools/list":
        trace("lists", "tools")
        answer(message, {"tools": offered(), **({"ttlMs": 0, "cacheScope": "private"} if is_modern(message) else {})})
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
        LISTENING.append(message["id"])
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        told = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        send({"method": "notifications/subscriptions/acknowledged", "params": told})
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})


if __name__ == "__main__":
    trace("starts", os.getpid())
    if os.path.exists(place("down")):
        print("it is down today", file=sys.stderr)
        sys.exit(1)
    for line in sys.stdin.buffer:
        heard(json.loads(line))
