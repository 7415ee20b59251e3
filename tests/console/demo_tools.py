"""Tools of every kind that the console shows: with previews, progress, nested calls, tables and pictures."""

import asyncio
from typing import Any, Literal

from surehand import Context, Runtime, tool
from surehand.core.content import Image

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PATCH = """--- notes/plan.md
+++ notes/plan.md
@@ -1,4 +1,4 @@
 # Plan
-- Call the bank on Monday
+- Call the bank on Tuesday
 - Send the report
+- Book the train
"""


@tool(
    effects={"write"},
    category="money",
    confirm=True,
    confirm_message="Pay 120 EUR to the landlord?",
    preview=lambda args: f"Transfer {args['amount']} {args.get('currency', 'EUR')} to {args['to']}",
)
async def pay(amount: int, to: str, ctx: Context, currency: Literal["EUR", "USD"] = "EUR", urgent: bool = False) -> str:
    """Pay an amount to somebody.

    Args:
        amount: how much, in whole units of the currency.
        to: who gets it.
    """
    return f"{ctx.user} paid {amount} {currency} to {to}{', at once' if urgent else ''}"


@tool(
    effects={"write"},
    category="files",
    confirm=True,
    confirm_message="Change notes/plan.md?",
    preview=lambda args: {"type": "diff", "filePath": args["path"], "patch": PATCH},
)
async def edit_note(path: str) -> str:
    """Change a note."""
    return f"{path} was changed"


@tool(effects={"read"}, category="math")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects={"read"})
async def fail(reason: str = "no luck") -> str:
    """Fail."""
    raise ValueError(reason)


@tool(effects={"read"}, category="people")
async def list_people() -> list[dict[str, Any]]:
    """List some people."""
    return [{"name": "Ada", "city": "London", "age": 36}, {"name": "Grace", "city": "New York", "age": 85}]


@tool(effects={"read"}, category="pictures")
async def draw() -> Image:
    """Draw a picture."""
    return Image(PIXEL, "image/png")


@tool(effects={"read"}, category="people")
async def summarize(ctx: Context) -> str:
    """Add some numbers and list some people, with nested calls."""
    for number in range(3):
        await ctx.call("add", {"a": number, "b": 1})
    await ctx.call("list_people")
    return "done"


pick = tool.client(
    "pick_colour",
    "Let the person pick a colour.",
    parameters={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What the person is asked."},
            "options": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["question"],
    },
    reply="later",
)


class Download:
    """A tool that reports its progress and ends when the test says so."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

        @tool(effects={"read"}, timeout="off", category="files")
        async def download(name: str, ctx: Context) -> str:
            """Download a file slowly."""
            ctx.report("half of it", fraction=0.5)
            await self.may_go_on.wait()
            return f"{name} is here"

        self.tool = download


def build_runtime(*tools: Any, **options: Any) -> Runtime:
    """A runtime with the tools above and more."""
    return Runtime(pay, edit_note, add, fail, list_people, draw, summarize, pick, *tools, **options)
