"""Makes the calls that wait for a person when the demo starts: `python waiting_calls.py demo.yaml`."""

import asyncio
import sys

from surehand import Call, Pending
from surehand.assemble.assemble import assemble
from surehand.config.config import read_config

CALLS = [
    Call("edit", {"file_path": "notes/plan.md", "old_string": "before saturday", "new_string": "before Saturday"}),
    Call("shop__place_order", {"title": "The Book of Tea", "copies": 2}),
    Call("ask_person", {"question": "Which tea shall we order next?", "options": ["Assam", "Sencha", "Oolong"]}),
]


async def main(path: str) -> None:
    """Make the calls with the tools of a configuration; the store keeps them."""
    async with assemble(read_config(path)) as runtime:
        for call, outcome in zip(CALLS, await runtime.call_many(CALLS), strict=True):
            if not isinstance(outcome, Pending):
                sys.exit(f"{call.tool} does not wait: {outcome.text}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
