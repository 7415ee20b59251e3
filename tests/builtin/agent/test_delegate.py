"""Tools whose outcome asks the host for an action."""

from __future__ import annotations

import json

from surehand import Runtime
from surehand.builtin.agent.delegate import delegate


async def test_the_outcome_names_the_action_for_the_host():
    async with Runtime(delegate()) as runtime:
        spawned = await runtime.call("spawn_task", {"description": "Tidy", "input": "Tidy the inbox."})
        resumed = await runtime.call("resume_task", {"task_id": "t1", "input": "Yes."})
        replied = await runtime.call("reply", {"text": "Done.", "channelId": "c1", "replyTo": "m1"})
        plain = await runtime.call("reply", {"text": "Done.", "channelId": "c1"})

    assert spawned.data == {"action": "spawn_task", "description": "Tidy", "input": "Tidy the inbox."}
    assert resumed.data == {"action": "resume_task", "task_id": "t1", "input": "Yes."}
    assert replied.data == {"action": "reply", "text": "Done.", "channelId": "c1", "replyTo": "m1"}
    assert plain.data["replyTo"] is None


async def test_a_task_for_a_sub_agent_is_marked_in_its_metadata_and_in_its_text():
    async with Runtime(delegate()) as runtime:
        outcome = await runtime.call(
            "task",
            {"description": "Review it", "prompt": "Read the diff.", "subagent_type": "code-review"},
            call_id="c1",
        )
        again = await runtime.call("task", {"description": "x", "prompt": "y", "session_id": "task-c1"})

    told = json.loads(outcome.text)
    assert outcome.metadata["error"] == told["action"] == "LLM_ASSIST_REQUIRED"
    assert outcome.metadata["status"] == "pending"
    assert told["taskType"] == "subagent_delegation"
    assert (told["subagentType"], told["description"], told["prompt"]) == ("code-review", "Review it", "Read the diff.")
    assert outcome.metadata["sessionID"] == told["sessionID"] == again.metadata["sessionID"] == "task-c1"
    assert again.data["subagentType"] == "general"


async def test_only_known_kinds_of_sub_agents_are_accepted():
    async with Runtime(delegate()) as runtime:
        arguments = {"description": "x", "prompt": "y", "subagent_type": "root"}
        assert (await runtime.call("task", arguments)).code == "invalid_arguments"
