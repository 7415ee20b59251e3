"""Which parameters a model fills and which the runtime fills; annotations are strings in this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel

from surehand import Context, DefinitionError, Done, Runtime, Tool, tool, use

if TYPE_CHECKING:
    from decimal import Decimal


class Sandbox:
    pass


@tool
async def early(later: Later, others: list[Later] | None = None) -> int:
    return later.size


class Later(BaseModel):
    size: int


async def test_a_type_may_be_defined_after_the_tool() -> None:
    assert await early.run({"later": {"size": 3}}) == Done(3)


async def test_a_type_may_be_local_to_the_function_that_defines_the_tool() -> None:
    class Local(BaseModel):
        size: int

    @tool
    async def bare(local: Local) -> int:
        return local.size

    @tool(name="other")
    async def optioned(local: Local, more: list[Local] = []) -> int:  # noqa: B006  # it is never changed
        return local.size

    assert await bare.run({"local": {"size": 1}}) == Done(1)
    assert await optioned.run({"local": {"size": 2}}) == Done(2)


async def test_methods_resolve_their_annotations_too() -> None:
    class Local(BaseModel):
        size: int

    class Shop:
        @tool
        async def weigh(self, item: Local) -> int:
            return item.size

    assert await Shop().weigh.run({"item": {"size": 5}}) == Done(5)


def test_a_type_that_is_only_there_for_the_type_checker_is_a_mistake() -> None:
    @tool
    async def pay(amount: Decimal) -> None: ...

    with pytest.raises(DefinitionError, match=r"test_signature\.py:\d+: .*'Decimal' is not defined.*Fix: import it"):
        pay.compile()


def properties(tool: Tool[..., Any]) -> list[str]:
    return list(tool.schema["properties"])


async def test_the_context_is_never_in_the_schema_whatever_its_parameter_is_called() -> None:
    @tool
    async def plain(a: int, ctx: Context) -> bool:
        return isinstance(ctx, Context)

    @tool
    async def optional(context: Context | None, a: int) -> bool:
        return context is None

    @tool
    async def annotated(a: int, c: Annotated[Context, "ours"]) -> bool:
        return isinstance(c, Context)

    for each in (plain, optional, annotated):
        assert properties(each) == ["a"]
        assert await each.run({"a": 1}) == Done(True)


async def test_what_is_used_is_never_in_the_schema() -> None:
    @tool
    async def default(a: int, sandbox: Sandbox = use(Sandbox)) -> bool:
        return sandbox is None

    @tool(use={"sandbox": Sandbox})
    async def listed(a: int, sandbox: Any) -> bool:
        return sandbox is None

    for each in (default, listed):
        assert properties(each) == ["a"]
        assert await each.run({"a": 1}) == Done(True)


async def test_a_caller_cannot_send_parameters_that_the_runtime_fills() -> None:
    @tool
    async def closed(ctx: Context, sandbox: Sandbox = use(Sandbox)) -> None: ...

    @tool
    async def opened(ctx: Context, sandbox: Sandbox = use(Sandbox), **more: Any) -> Any:
        return [isinstance(ctx, Context), sandbox, more]

    sent = {"ctx": 1, "sandbox": 2}

    assert (await closed.run(sent)).code == "invalid_arguments"
    assert await opened.run(sent) == Done([True, None, {}])


async def test_each_scope_fills_in_its_own_value() -> None:
    @tool
    async def which(sandbox: Sandbox = use(Sandbox)) -> int:
        return id(sandbox)

    one, other = Sandbox(), Sandbox()

    async with Runtime(which) as runtime:
        assert await runtime.scope(one).call("which") == Done(id(one))
        assert await runtime.scope(other).call("which") == Done(id(other))


async def test_a_missing_use_value_makes_the_tool_unavailable_before_it_runs() -> None:
    ran = []

    @tool
    async def needs(sandbox: Sandbox = use(Sandbox)) -> None:
        ran.append("needs")

    @tool
    async def may_do_without(sandbox: Sandbox | None = use(Sandbox)) -> bool:
        return sandbox is None

    async with Runtime(needs, may_do_without) as runtime:
        outcome = await runtime.call("needs")

        assert (outcome.code, outcome.executed, ran) == ("unavailable", False, [])
        assert "needs a Sandbox" in outcome.message
        assert await runtime.call("may_do_without") == Done(True)


async def test_parameters_may_bear_any_name() -> None:
    @tool
    async def odd(self: int, whole: int, running: int, cls: int, ctx: Context) -> int:
        return self + whole + running + cls

    assert await odd.run({"self": 1, "whole": 2, "running": 3, "cls": 4}) == Done(10)


async def test_a_parameter_without_an_annotation_may_be_anything() -> None:
    @tool
    async def echo(value, other=2):  # type: ignore[no-untyped-def]  # the point of the test
        return [value, other]

    assert echo.schema["properties"] == {"value": {}, "other": {"default": 2}}
    assert await echo.run({"value": {"a": [1]}}) == Done([{"a": [1]}, 2])


def test_a_default_that_json_cannot_hold_is_not_in_the_schema() -> None:
    @tool
    async def work(marker: Any = object()) -> None: ...  # noqa: B008  # made once on purpose

    assert work.schema["properties"] == {"marker": {}}
