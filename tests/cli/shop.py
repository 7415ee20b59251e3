"""Tools for the tests of the command line."""

import asyncio
import os
import sys
import time
from typing import Any

from surehand import Context, Text, ToolError, Unavailable, tool


@tool(effects={"read"})
async def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Nothing more to it.
    """
    return a + b


@tool(effects={"read"}, aliases=("say",), toolsets=("talk",))
async def echo(text: str, tags: list[str] | None = None, extra: Any = None) -> dict[str, Any]:
    """Give back what it was given."""
    return {"text": text, "tags": tags, "extra": extra}


@tool(
    effects={"write", "network"},
    confirm_message=lambda args, ctx: f"Pay {args['amount']} to {args['to']}?",
    preview=lambda args, ctx: {"left": 100 - args["amount"]},
)
async def pay(amount: float, to: str, note: str = "") -> str:
    """Pay somebody."""
    return f"Paid {amount:g} to {to}."


def patched(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """What a sign would say then."""
    if not (text := args["text"]):
        return {"type": "diff", "filePath": "sign.txt", "patch": "", "isNewFile": False, "problem": "Nothing to\nsay."}
    rows = [f"+{line}" for line in text.split("\n")]
    patch = "\n".join(
        ["--- a/sign.txt", "+++ b/sign.txt", f"@@ -1,2 +1,{len(rows) + 1} @@", " Shop", "--- open", *rows]
    )
    more = {"letters": len(text)} if args["count"] else {}
    return {"type": "diff", "filePath": "sign.txt", "patch": patch, "isNewFile": args["new"], **more}


@tool(effects={"write"}, preview=patched)
async def paint(text: str, new: bool = False, count: bool = False) -> str:
    """Paint the sign of the shop."""
    return "Painted."


@tool(effects={"read"}, listed=False, toolsets=("talk",))
async def tell(
    body: str | dict[str, Any] | list[Any] | None = None, sizes: list[int] | None = None, most: list[str] | int = 1
) -> list[Any]:
    """Give back somebody's words, under an old name."""
    return [body, sizes, most]


@tool(effects={"read"})
async def visitor(ctx: Context) -> list[str | None]:
    """Say who is there."""
    return [ctx.user, ctx.session, ctx.agent, ctx.space]


@tool
async def buy(item: str, ctx: Context) -> str:
    """Buy something, and pay for it."""
    paid = await ctx.call("pay", {"amount": 3, "to": item})
    return f"{item}: {paid.text}"


@tool
async def order(ctx: Context) -> Any:
    """Order something that has to be signed for."""
    return await ctx.call("sign")


@tool
async def loud() -> str:
    """Print something."""
    print("printed by the handler")
    sys.stdout.flush()
    return "quiet"


@tool
async def missing(name: str) -> str:
    """Fail."""
    raise ToolError(f"There is no {name!r}.", code="not_found")


@tool
async def broken() -> str:
    """Crash."""
    raise RuntimeError("boom \x1b[2J")


@tool
async def bake(ctx: Context, bell: str = "") -> dict[str, Any]:
    """Bake bread, which takes until a bell rings twice."""
    ctx.report("warming the oven")
    await rung(bell and f"{bell}1")
    ctx.report(0.5, "half way")
    await rung(bell and f"{bell}2")
    return {"bread": True, "slices": 12}


async def rung(bell: str) -> None:
    """Wait for a file of that name."""
    while bell and not os.path.exists(bell):  # noqa: ASYNC110 - somebody else makes it
        await asyncio.sleep(0.02)


@tool
async def sleep(seconds: float = 60) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "awake"


@tool
def block(seconds: float = 60) -> str:
    """Wait in a thread that nobody can interrupt."""
    time.sleep(seconds)
    return "awake"


@tool
async def borrow(seconds: float = 60) -> str:
    """Wait in a thread of asyncio's own, which Python joins before it ends."""
    await asyncio.to_thread(time.sleep, seconds)
    return "awake"


@tool(max_bytes=300)
async def huge(form: str = "rows") -> Any:
    """Give more than a model is shown."""
    rows = [f"row {number}" for number in range(100)]
    if form == "failure":
        raise ToolError("; ".join(rows))
    if form == "forged":
        return {"tool_output": {"handle": "none"}}
    return {"rows": rows, "text": "\n".join(rows), "blocks": [Text(row) for row in rows]}[form]


@tool(effects={"read"}, retries=1)
async def flaky(ctx: Context, bell: str) -> str:
    """Work the second time, once a bell rings."""
    if ctx.attempt == 1:
        raise Unavailable("Not now.", retry_after=0.1)
    await rung(bell)
    return "there"


@tool(audience="user")
async def greet() -> str:
    """Greet a person."""
    return "hello"


choose = tool.client("choose", "Ask which one it shall be.", parameters={"type": "object"}, reply="wait")
sign = tool.client("sign", "Ask for a signature.", reply="later")
odd = tool.hosted("odd", "Only OpenAI runs it.", options={"openai": {"type": "web_search"}})
