"""`Outcome.as_legacy`: results in the shapes of the source documents."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from surehand import Done, Failed, File, Image, Pending, Runtime, Text, tool

ROW_KEYS = {
    "toolCallId", "agentEntityId", "runId", "toolName", "args", "status", "result", "expiresAt", "createdAt",
    "resolvedAt",
}  # fmt: skip


class Book(BaseModel):
    title: str


@tool
async def find(title: str) -> Any:
    """Find a book."""
    if not title:
        raise LookupError("no title")
    return Done(Book(title=title), title="Found it", metadata={"shelf": 3})


@tool(confirm=True)
async def burn(title: str) -> str:
    """Burn a book."""
    return "ashes"


async def all_outcomes() -> tuple[Any, Any, Any]:
    async with Runtime(find, burn) as runtime:
        scope = runtime.scope(agent="clerk", turn="run-1")
        done = await scope.call("find", {"title": "Emma"})
        failed = await scope.call("find", {"title": ""})
        return done, failed, await scope.call("burn", {"title": "Emma"})


async def test_a_result_has_the_keys_of_document_000() -> None:
    done, failed, pending = (outcome.as_legacy("000") for outcome in await all_outcomes())

    assert failed == {"error": failed["error"]}
    assert "LookupError: no title" in failed["error"]
    assert done.keys() == pending.keys() == ROW_KEYS
    assert (done["status"], done["result"], done["toolName"]) == ("resolved", {"title": "Emma"}, "find")
    assert (done["agentEntityId"], done["runId"], done["args"]) == ("clerk", "run-1", {"title": "Emma"})
    assert (pending["status"], pending["result"], pending["resolvedAt"]) == ("pending", None, None)
    assert pending["toolCallId"]
    assert done["createdAt"] <= done["resolvedAt"]


def test_an_expired_call_is_an_expired_row_of_document_000() -> None:
    row = Failed("expired", "Nobody answered in time.").as_legacy("000")

    assert (row["status"], row["result"], row.keys()) == ("expired", None, ROW_KEYS)


async def test_a_result_has_the_keys_of_document_001() -> None:
    done, failed, pending = (outcome.as_legacy("001") for outcome in await all_outcomes())

    assert done.keys() == {"ok", "result", "latencyMs", "kind", "namespace", "extras"}
    assert failed.keys() == pending.keys() == {"ok", "error", "latencyMs", "kind", "namespace", "extras"}
    assert (done["ok"], done["result"], done["kind"]) == (True, '{"title":"Emma"}', "function")
    assert done["extras"] == {"shelf": 3}
    assert (failed["ok"], failed["extras"]) == (False, {"code": "crashed", "executed": True})
    assert pending["extras"]["waitingFor"] == "approval"
    assert done["latencyMs"] > 0
    assert "extras" not in Done(1).as_legacy("001")


async def test_a_result_has_the_keys_of_document_002() -> None:
    done, failed, pending = (outcome.as_legacy("002") for outcome in await all_outcomes())

    assert done.keys() == {"success", "result", "startedAt", "completedAt", "durationMs"}
    assert failed.keys() == {"success", "error", "startedAt", "completedAt", "durationMs"}
    assert pending.keys() == {"success", "error", "startedAt"}
    assert (done["success"], done["result"]) == (True, {"title": "Emma"})
    assert (failed["success"], pending["success"]) == (False, False)
    assert done["startedAt"] > 1_700_000_000_000
    assert done["completedAt"] == done["startedAt"] + done["durationMs"]


async def test_a_result_has_the_keys_of_document_004() -> None:
    done, failed, pending = (outcome.as_legacy("004") for outcome in await all_outcomes())

    assert done == {"title": "Found it", "metadata": {"shelf": 3}, "output": '{"title":"Emma"}'}
    assert (failed["title"], failed["metadata"]["code"]) == ("find", "crashed")
    assert failed["metadata"]["error"] in failed["output"]
    assert pending["metadata"]["status"] == "pending"
    assert "error" not in pending["metadata"]


def test_a_failure_keeps_its_data_in_the_metadata_of_document_004() -> None:
    own_word = Failed("failed", "No file a.txt.", data={"error": "NOT_FOUND", "path": "a.txt"}).as_legacy("004")
    command = Failed("failed", "exit code 3", executed=True, data={"exitCode": 3, "error": None}).as_legacy("004")

    assert own_word["metadata"] == {"error": "NOT_FOUND", "path": "a.txt", "code": "failed", "executed": False}
    assert command["metadata"] == {"error": "exit code 3", "exitCode": 3, "code": "failed", "executed": True}


def test_pictures_and_files_are_attachments_of_document_004() -> None:
    picture, table = Image("AAAA"), File("QUE=", "text/csv", "a.csv")
    done = Done(content=[Text("Look:"), picture], attachments=[picture, table])

    assert done.as_legacy("004")["attachments"] == [
        {"type": "image/png", "data": "AAAA"},
        {"type": "text/csv", "data": "QUE=", "filename": "a.csv"},
    ]


@pytest.mark.parametrize("document", ["000", "001", "002", "004"])
def test_a_result_of_any_document_is_plain_json(document: Any) -> None:
    for outcome in (Done(Book(title="Emma")), Done(None), Failed("denied", "No."), Pending("input", "c1", "Which?")):
        result = outcome.as_legacy(document)

        assert json.loads(json.dumps(result)) == result


def test_another_document_is_refused() -> None:
    with pytest.raises(ValueError, match="'003' is not a document with results"):
        Done(1).as_legacy("003")  # type: ignore[arg-type]
