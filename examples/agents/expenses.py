"""An agent that files expenses: small ones at once, large ones only when you approve them. State is in expenses.db.

Run it:      python expenses.py "Taxi 24, hotel 310"
Run it again with the same words after a crash, or after answering "later": it goes on where it was.
With OPENAI_API_KEY it asks a real model, otherwise a script.
"""

import asyncio
import hashlib
import os
import sys

from surehand import Agent, Limits, Runtime, tool
from surehand.testing import ScriptedModel

DEFAULT_PROMPT = "Taxi 24, hotel 310"


@tool(effects={"read"})
async def budget() -> str:
    """How much is left of this month's budget."""
    return "1200 euros"


@tool(
    effects={"write"},
    confirm=lambda args: args["amount"] >= 100,
    confirm_message=lambda args: f"File {args['amount']:g} euros for {args['what']}?",
)
async def file_expense(what: str, amount: float) -> str:
    """File one expense."""
    return f"Filed {amount:g} euros for {what}."


def choose_model() -> str | ScriptedModel:
    """A real model if there is a key for one."""
    if os.environ.get("OPENAI_API_KEY"):
        return "openai:gpt-5-mini"
    return ScriptedModel(*[reply] * 10)


def reply(messages: list[dict[str, object]]) -> object:
    """What the script answers: it looks at the conversation, as a model does."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if not results:
        return [
            ("budget", {}),
            ("file_expense", {"what": "taxi", "amount": 24}),
            ("file_expense", {"what": "hotel", "amount": 310}),
        ]
    late = [message["content"] for message in messages if str(message["content"]).startswith("[Tool Result")]
    return f"All is filed. {late[-1]}" if late else "The taxi is filed, the hotel waits for your approval."


async def main() -> None:
    prompt = " ".join(sys.argv[1:]) or DEFAULT_PROMPT
    agent = Agent(
        "expenses",
        model=choose_model(),
        instructions="File each expense of the user. Say at the end what was filed and what waits.",
        tools=[budget, file_expense],
        limits=Limits(steps=10, seconds=120),
    )
    run_id = hashlib.sha256(prompt.encode()).hexdigest()[:20]  # the same words are the same run
    async with Runtime(agent, store="expenses.db") as runtime:
        run = await agent.run(prompt, user=os.environ.get("USER", "you"), run_id=run_id, runtime=runtime)
        while run.status == "waiting" and run.waiting:
            print(run.text)
            for wait in run.waiting:
                answer = await asyncio.to_thread(input, f"{wait.message} [yes/no/later] ")
                if answer == "later":
                    print("Run this program again to answer.")
                    return
                await (runtime.approve(wait.call_id) if answer == "yes" else runtime.reject(wait.call_id))
            run = await agent.resume(run.id, runtime=runtime)
    print(run.text or run.reason)
    print(f"({run.status}: {run.usage.requests} requests, {run.usage.calls} calls)")


if __name__ == "__main__":
    asyncio.run(main())
