"""`confirm`, `confirm_message` and `preview`: functions of one argument or two; others are definition errors."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from surehand import Context, DefinitionError, Done, Pending, Runtime, tool

FACETS = ("confirm", "confirm_message", "preview")


class Limits:
    """Functions of an application, as methods."""

    def of_arguments(self, args: dict[str, Any]) -> str:
        return f"method {args['amount']}"

    async def of_both(self, args: dict[str, Any], ctx: Context) -> str:
        return f"async method {args['amount']} of {ctx.user}"

    @staticmethod
    def static(args: dict[str, Any]) -> str:
        return f"static {args['amount']}"


class CallableObject:
    async def __call__(self, args: dict[str, Any]) -> str:
        return f"object {args['amount']}"


async def of_arguments(args: dict[str, Any]) -> str:
    return f"async {args['amount']}"


def with_default(args: dict[str, Any], limit: int = 100) -> str:
    return f"{args['amount']} of {limit}"


def with_optional_context(args: dict[str, Any], ctx: Context | None = None) -> str:
    assert ctx is not None
    return f"{args['amount']} for {ctx.user}"


def with_setting(setting: str, args: dict[str, Any], ctx: Context) -> str:
    return f"{setting} {args['amount']} of {ctx.user}"


def of_any_number(*arguments: Any) -> str:
    return f"{len(arguments)} arguments"


WORKING: list[tuple[Callable[..., Any], str]] = [
    (lambda args: f"{args['amount']}", "7"),
    (lambda args, ctx: f"{args['amount']} of {ctx.user}", "7 of ada"),
    (of_arguments, "async 7"),
    (Limits().of_arguments, "method 7"),
    (Limits().of_both, "async method 7 of ada"),
    (Limits.static, "static 7"),
    (CallableObject(), "object 7"),
    (with_default, "7 of 100"),
    (with_optional_context, "7 for ada"),
    (partial(with_default, limit=5), "7 of 5"),
    (partial(with_setting, "partial"), "partial 7 of ada"),
    (of_any_number, "2 arguments"),
]


def transfer(**options: Any) -> Any:
    @tool(effects={"write"}, **options)
    async def transfer(amount: int) -> str:
        """Transfer money."""
        return "paid"

    return transfer


@pytest.mark.parametrize(("function", "result"), WORKING)
async def test_functions_of_one_argument_or_two_work_sync_or_async(
    function: Callable[..., Any], result: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runtime(transfer(confirm=True, confirm_message=function, preview=function)) as runtime:
        asked = await runtime.scope(user="ada").call("transfer", {"amount": 7})

    assert isinstance(asked, Pending)
    assert asked.message == result
    assert asked.request["preview"] == result
    assert caplog.records == []


@pytest.mark.parametrize(
    "confirm",
    [
        lambda args: args["amount"] >= 100,
        lambda args, ctx: args["amount"] >= 100,
        partial(lambda limit, args: args["amount"] >= limit, 100),
        lambda args, limit=100: args["amount"] >= limit,
    ],
)
async def test_a_confirm_function_of_one_argument_or_two_decides(confirm: Callable[..., Any]) -> None:
    async with Runtime(transfer(confirm=confirm)) as runtime:
        assert isinstance(await runtime.call("transfer", {"amount": 7}), Done)
        assert isinstance(await runtime.call("transfer", {"amount": 700}), Pending)


def without_parameters() -> bool:
    return True


def of_three(args: Any, ctx: Any, more: Any) -> bool:
    return True


def with_required_keyword(args: Any, *, ctx: Any) -> bool:
    return True


@pytest.mark.parametrize("facet", FACETS)
@pytest.mark.parametrize(
    "function",
    [without_parameters, of_three, with_required_keyword, Limits.of_both, lambda **fields: True, bool],
)
def test_any_other_signature_is_a_definition_error_with_file_line_and_fix(
    facet: str, function: Callable[..., Any]
) -> None:
    with pytest.raises(DefinitionError) as caught:
        transfer(**{facet: function})

    assert facet in caught.value.problem
    assert caught.value.fix == "give a function of (args), or of (args, ctx)."
    file, _, line = caught.value.where.rpartition(":")
    assert Path(file).name == "test_facet_functions.py"
    assert line.isdigit()


def test_the_error_shows_the_signature_that_cannot_be_used() -> None:
    with pytest.raises(
        DefinitionError, match=r"The `confirm` function of_three\(args: .*, more: .*\).* cannot be used"
    ):
        transfer(confirm=of_three)


def test_evolve_and_tools_without_a_function_check_the_signature_too() -> None:
    with pytest.raises(DefinitionError):
        transfer().evolve(preview=of_three)
    with pytest.raises(DefinitionError):
        tool.client("ask", "Ask.", confirm=without_parameters)


def test_a_message_must_be_a_text_or_a_function() -> None:
    with pytest.raises(DefinitionError, match="confirm_message=7 cannot be used"):
        transfer(confirm_message=7)
