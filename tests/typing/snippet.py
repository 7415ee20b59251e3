"""Read by mypy, never run: what a type checker makes of tools. Each comment says what it should reveal or refuse."""

from typing import Any, reveal_type

from pydantic import BaseModel

from surehand import Call, Context, Done, Failed, Outcome, Pending, Runtime, Tool, tool, use


class Sandbox: ...


class Book(BaseModel):
    title: str


@tool
async def add(a: int, b: int) -> int:
    return a + b


@tool(name="half", effects={"read"}, timeout="5s", cache="1m", retries=2)
def halve(a: int, ctx: Context, sandbox: Sandbox = use(Sandbox)) -> float:
    reveal_type(ctx.call_id)  # str
    reveal_type(ctx.use(Sandbox))  # Sandbox
    return a / 2


class Account:
    @tool
    async def pay(self, amount: int) -> str:
        return str(amount)


async def calling() -> None:
    reveal_type(await add(1, 2))  # int
    reveal_type(await add(1, b=2))  # int
    await add("x", 2)  # error: [arg-type]
    await add(1)  # error: [call-arg]
    await add(1, 2, c=3)  # error: [call-arg]
    reveal_type(add.name)  # str
    reveal_type(add)  # Tool[[a: int, b: int], Coroutine[Any, Any, int]]
    reveal_type(use(Sandbox))  # Sandbox
    tool(timeout=[1])  # error: [call-overload]
    tool(colour="red")  # error: [call-overload]


def options(ctx: Context) -> None:
    reveal_type(halve(1, ctx))  # float
    reveal_type(halve(1, ctx, Sandbox()))  # float
    halve("x", ctx)  # error: [arg-type]


async def methods(account: Account) -> None:
    reveal_type(account.pay)  # Tool[[amount: int], Coroutine[Any, Any, str]]
    reveal_type(await account.pay(3))  # str
    await account.pay("x")  # error: [arg-type]


async def outcomes(runtime: Runtime) -> None:
    outcome = await add.run({"a": 1})
    reveal_type(outcome)  # Done | Failed | Pending
    reveal_type(outcome.ok)  # bool
    reveal_type(outcome.text)  # str
    match outcome:
        case Done(data):
            reveal_type(outcome)  # Done
            reveal_type(data)  # Any
        case Failed(code=code, message=message):
            reveal_type(message)  # str
            if code == "nonsense":  # error: [comparison-overlap]
                pass
        case Pending():
            reveal_type(outcome.call_id)  # str
    if isinstance(outcome, Done):
        reveal_type(outcome.data)  # Any
    elif isinstance(outcome, Failed):
        reveal_type(outcome.executed)  # bool
    else:
        reveal_type(outcome)  # Pending
    reveal_type(await runtime.call("add", {"a": 1}))  # Done | Failed | Pending
    for each in await runtime.call_many([Call("add", {"a": 1})]):
        reveal_type(each)  # Done | Failed | Pending


def elsewhere() -> None:
    client: Tool[..., Any] = tool.client("ask", "Ask.", parameters=Book, reply="later")
    tool.client("ask", "Ask.", reply="soon")  # error: [arg-type]
    reveal_type(client.description)  # str


def named(outcome: Outcome) -> str:
    return outcome.text
