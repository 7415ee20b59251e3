"""Makes the calls that wait for a person when the demo starts: `python waiting_calls.py demo.yaml`."""

import asyncio
import sys

from surehand import Call, Pending, Runtime
from surehand.assemble.assemble import assemble
from surehand.config.config import read_config

CALLS = [
    Call("edit", {"file_path": "notes/plan.md", "old_string": "before saturday", "new_string": "before Saturday"}),
    Call("shop__place_order", {"title": "The Book of Tea", "copies": 2}),
]
QUESTION = Call("ask_person", {"question": "Which tea shall we order next?", "options": ["Assam", "Sencha", "Oolong"]})
SPACE = "shop-floor"


async def main(path: str) -> None:
    """Make the calls with the tools of a configuration; the store keeps them."""
    async with assemble(read_config(path)) as runtime:
        await open_space(runtime)
        in_space = runtime.scope(space=SPACE)
        outcomes = [*await runtime.call_many(CALLS), await in_space.call(QUESTION.tool, QUESTION.arguments)]
        for call, outcome in zip([*CALLS, QUESTION], outcomes, strict=True):
            if not isinstance(outcome, Pending):
                sys.exit(f"{call.tool} does not wait: {outcome.text}")


async def open_space(runtime: Runtime) -> None:
    """A space with a message, in which the question is shown."""
    assert runtime.store is not None
    await runtime.store.spaces.create(SPACE, "Shop floor")
    await runtime.store.spaces.join(SPACE, "owner", "person", "Owner")
    await runtime.store.spaces.post(SPACE, "The tea is running low.", sender="owner")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
