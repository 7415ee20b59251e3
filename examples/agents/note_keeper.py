"""An agent that works on the files of a folder, on a leash: it may read and write notes there, and do nothing else.

Run it: python note_keeper.py FOLDER "Add milk to the shopping list"
With OPENAI_API_KEY it asks a real model, otherwise a script. Each write shows what changes before it happens.
"""

import asyncio
import os
import sys

from surehand import Agent, Approval, Limits, Runtime, files
from surehand.testing import ScriptedModel


def script(prompt: str) -> ScriptedModel:
    """Writes the request down and reads it back."""
    return ScriptedModel(
        [("write", {"file_path": "notes.md", "content": f"- {prompt}\n"})],
        [("read", {"file_path": "notes.md"})],
        "I have written it down in notes.md.",
    )


async def show_and_allow(pending: object) -> Approval:
    """Approves every write, after showing it. A real program would ask."""
    print("about to run:", getattr(pending, "tool", ""), getattr(pending, "message", ""))
    return Approval(True, by="note_keeper")


async def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    prompt = " ".join(sys.argv[2:]) or "Add milk to the shopping list"
    model = "openai:gpt-5-mini" if os.environ.get("OPENAI_API_KEY") else script(prompt)
    agent = Agent(
        "notes",
        model=model,
        instructions="Keep the user's notes in Markdown files. Read a file before you change it.",
        tools=["read", "write", "edit", "list"],
        limits=Limits(steps=8),
    )
    policy = [{"effects": ["write"], "decision": "ask"}, {"effects": ["execute", "network"], "decision": "deny"}]
    async with Runtime(files(folder), policy=policy, approver=show_and_allow) as runtime:
        run = await agent.run(prompt, runtime=runtime)
    print(run.text or run.reason)


if __name__ == "__main__":
    asyncio.run(main())
