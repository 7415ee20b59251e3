"""People are asked only what can work: whatever can be known to fail ends the call before anybody is asked."""

from typing import Any

import pytest

from surehand import (
    Context,
    Denied,
    Done,
    Failed,
    NotFound,
    Pending,
    Policy,
    Provider,
    Runtime,
    Tool,
    ToolError,
    prefixed,
    tool,
)

ASK = Policy([{"decision": "ask"}])


def asking(**options: Any) -> Any:
    @tool(effects={"write"}, confirm=True, **options)
    async def transfer(amount: int) -> str:
        """Transfer money."""
        return "paid"

    return transfer


def refuse(args: dict[str, Any]) -> Any:
    raise NotFound("There is no such account. Name another one.", data={"amount": args["amount"]})


async def refuse_later(args: dict[str, Any], ctx: Context) -> Any:
    raise NotFound("There is no such account. Name another one.", data={"amount": args["amount"]})


@pytest.mark.parametrize("preview", [refuse, refuse_later])
async def test_a_preview_that_raises_tool_error_ends_the_call_with_that_failure(
    preview: Any, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    async def approver(pending_call: Any) -> bool:
        asked.append(pending_call)
        return True

    async with Runtime(asking(preview=preview), approver=approver) as runtime:
        outcome = await runtime.call("transfer", {"amount": 7})
        waiting = await runtime.pending()

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed, outcome.data) == ("not_found", False, {"amount": 7})
    assert outcome.message == "There is no such account. Name another one."
    assert asked == waiting == []
    assert caplog.records == []


async def test_any_other_exception_of_a_preview_is_logged_and_never_blocks(caplog: pytest.LogCaptureFixture) -> None:
    async with Runtime(asking(preview=lambda args: args["missing"])) as runtime:
        outcome = await runtime.call("transfer", {"amount": 7})

    assert isinstance(outcome, Pending)
    assert outcome.request["preview"] is None
    assert "The preview of transfer raised" in caplog.text


@pytest.mark.parametrize("error", [ToolError("no"), ValueError("no")])
async def test_a_message_that_raises_is_logged_and_never_blocks(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def message(args: dict[str, Any]) -> str:
        raise error

    async with Runtime(asking(confirm_message=message)) as runtime:
        outcome = await runtime.call("transfer", {"amount": 7})

    assert isinstance(outcome, Pending)
    assert outcome.message == "Allow transfer to execute?"
    assert "The confirm_message of transfer raised" in caplog.text


async def test_invalid_arguments_end_the_call_before_anybody_is_asked() -> None:
    async with Runtime(asking()) as runtime:
        assert (await runtime.call("transfer", {"amount": "much"})).code == "invalid_arguments"
        assert await runtime.pending() == []


async def test_a_call_that_ended_before_the_question_can_be_repeated_under_its_id() -> None:
    accounts: set[str] = set()

    def preview(args: dict[str, Any]) -> None:
        if not accounts:
            raise NotFound("There is no account.")

    async with Runtime(asking(preview=preview)) as runtime:
        first = await runtime.call("transfer", {"amount": 7}, call_id="c1")
        accounts.add("ada")
        again = await runtime.call("transfer", {"amount": 7}, call_id="c1")

    assert (first.code, isinstance(again, Pending)) == ("not_found", True)


class Bank(Provider):
    namespace = "bank"
    checked: list[str]

    def __init__(self) -> None:
        self.checked = []

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("send", "Send money.", effects={"write"}, parameters={"type": "object"})]

    async def check_call(self, call: Any) -> None:
        self.checked.append(call.tool)
        if call.arguments.get("to") == "mallory":
            raise Denied("mallory has no account here.")
        if call.arguments.get("to") == "crash":
            raise RuntimeError("bug")

    async def invoke(self, call: Any, context: Any) -> str:
        return "sent"


async def test_a_provider_can_refuse_a_call_before_anybody_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    bank = Bank()
    async with Runtime(prefixed(bank, "my"), policy=ASK) as runtime:
        refused = await runtime.call("bank__my_send", {"to": "mallory"})
        crashed = await runtime.call("bank__my_send", {"to": "crash"})
        asked = await runtime.call("bank__my_send", {"to": "ada"})

    assert (refused.code, refused.executed) == ("denied", False)
    assert isinstance(crashed, Pending)
    assert "The provider of bank__my_send raised in check_call" in caplog.text
    assert isinstance(asked, Pending)
    assert bank.checked == ["send", "send", "send"]


async def test_a_call_that_nobody_is_asked_about_needs_no_check() -> None:
    bank = Bank()
    async with Runtime(bank) as runtime:
        assert isinstance(await runtime.call("bank__send", {"to": "mallory"}), Done)

    assert bank.checked == []


async def test_a_preview_is_not_computed_for_a_call_that_nobody_is_asked_about() -> None:
    @tool(preview=refuse)
    async def look(amount: int) -> str:
        """Look."""
        return "seen"

    async with Runtime(look) as runtime:
        assert isinstance(await runtime.call("look", {"amount": 1}), Done)
