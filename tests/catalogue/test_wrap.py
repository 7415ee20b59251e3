"""Wrappers that select and rename tools."""

from typing import Any

import pytest

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.wrap import filtered, prefixed, renamed
from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import DefinitionError
from surehand.core.outcome import Pending
from surehand.core.provider import Provider
from surehand.core.tool import StandaloneCall, Tool


@tool(aliases=("pay",))
async def transfer(amount: int) -> int:
    """Transfer money."""
    return amount


@tool
async def balance() -> int:
    """How much there is."""
    return 7


BANK: list[Tool[..., Any]] = [transfer, balance]
CONTEXT = Context(StandaloneCall("saldo", {}))


class Bank(Provider):
    kind = "rest"
    namespace = "bank"
    timeout = 5.0
    queue = "slow"
    region = "eu"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def start(self) -> None:
        self.seen.append("start")

    async def stop(self) -> None:
        self.seen.append("stop")

    async def tools(self) -> list[Tool[..., Any]]:
        return BANK

    async def invoke(self, call: Call, context: Context) -> Any:
        self.seen.append((call.tool, call.arguments, context.call_id))
        return Pending("input", state=call.tool)

    async def resume(self, call: Call, state: Any, answer: Any, context: Any) -> Any:
        return call.tool, state, answer

    async def cancel(self, call: Call, reason: str) -> None:
        self.seen.append((call.tool, reason))

    def instructions(self, principal: Any) -> str:
        return "Be careful."


def names(tools: Any) -> list[str]:
    return [tool.name for tool in tools]


def test_a_prefix_is_put_before_names_and_aliases() -> None:
    tools = prefixed(BANK, "eu")

    assert names(tools) == ["eu_transfer", "eu_balance"]
    assert tools[0].aliases == ("eu_pay",)


async def test_a_wrapped_tool_still_does_its_work_and_the_original_keeps_its_name() -> None:
    (wrapped, _) = prefixed(BANK, "eu")

    assert (await wrapped.run({"amount": 3})).unwrap() == 3
    assert transfer.name == "transfer"


def test_the_same_tools_fit_into_one_catalogue_under_two_prefixes() -> None:
    catalogue = Catalogue(*prefixed(BANK, "eu"), *prefixed(BANK, "us"))

    assert len(catalogue) == 4


def test_a_prefix_that_no_name_can_begin_with_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is not a legal prefix"):
        prefixed(BANK, "e u")


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        (("*",), (), ["transfer", "balance"]),
        (("any",), (), ["transfer", "balance"]),
        (("TRANS*",), (), ["transfer"]),
        ("bal*", (), ["balance"]),
        (("*",), ("Balance",), ["transfer"]),
        (("transfer",), ("trans*",), []),
        (("*",), "any", []),
        ((), (), []),
        (lambda tool: "How" in tool.description, (), ["balance"]),
        (lambda tool: True, ("balance",), ["transfer"]),
    ],
)
def test_tools_are_allowed_first_and_then_denied(allow: Any, deny: Any, expected: list[str]) -> None:
    assert names(filtered(BANK, allow, deny)) == expected


def test_all_tools_are_allowed_by_default() -> None:
    assert names(filtered(BANK)) == ["transfer", "balance"]


def test_only_the_named_tools_are_renamed() -> None:
    assert names(renamed(BANK, {"balance": "saldo"})) == ["transfer", "saldo"]


def test_names_can_be_swapped() -> None:
    assert names(renamed(BANK, {"balance": "transfer", "transfer": "balance"})) == ["balance", "transfer"]


def test_renaming_an_unknown_tool_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(DefinitionError, match=r"no tool 'balence' to rename. Fix: write 'balance'"):
        renamed(BANK, {"balence": "saldo"})


def test_two_tools_cannot_get_the_same_name() -> None:
    with pytest.raises(DefinitionError, match="Two tools would be called 'transfer'"):
        renamed(BANK, {"balance": "transfer"})


def test_a_new_name_must_be_legal() -> None:
    with pytest.raises(DefinitionError, match="'sal do' is not a legal tool name"):
        renamed(BANK, {"balance": "sal do"})


async def test_a_provider_offers_its_tools_reshaped() -> None:
    assert names(await prefixed(Bank(), "eu").tools()) == ["eu_transfer", "eu_balance"]
    assert names(await filtered(Bank(), deny=("bal*",)).tools()) == ["transfer"]
    assert names(await renamed(Bank(), {"balance": "saldo"}).tools()) == ["transfer", "saldo"]


async def test_a_provider_is_called_by_the_names_that_it_knows() -> None:
    bank = Bank()
    wrapped = renamed(prefixed(bank, "eu"), {"eu_balance": "saldo"})
    call = Call("saldo", {}, id="c1")

    outcome = await wrapped.invoke(call, CONTEXT)
    resumed = await wrapped.resume(call, outcome.state, "yes", CONTEXT)
    await wrapped.cancel(call, "timeout")

    assert bank.seen == [("balance", {}, CONTEXT.call_id), ("balance", "timeout")]
    assert resumed == ("balance", "balance", "yes")


async def test_a_provider_resumes_after_a_restart_without_being_listed_first() -> None:
    assert await renamed(Bank(), {"balance": "saldo"}).resume(Call("saldo"), None, 1, CONTEXT) == ("balance", None, 1)


async def test_a_name_that_was_not_changed_reaches_the_provider_as_it_is() -> None:
    assert await renamed(Bank(), {"balance": "saldo"}).resume(Call("transfer"), None, 1, CONTEXT) == (
        "transfer",
        None,
        1,
    )


async def test_everything_else_of_a_provider_is_as_before() -> None:
    bank = Bank()
    wrapped: Any = filtered(bank)

    await wrapped.start()
    await wrapped.stop()

    assert bank.seen == ["start", "stop"]
    assert (wrapped.kind, wrapped.namespace, wrapped.timeout, wrapped.queue) == ("rest", "bank", 5.0, "slow")
    assert wrapped.instructions(Principal()) == "Be careful."
    assert wrapped.region == "eu"


async def test_a_wrong_rename_of_a_provider_is_reported_when_its_tools_are_listed() -> None:
    wrapped = renamed(Bank(), {"balence": "saldo"})

    with pytest.raises(DefinitionError, match="'balance'"):
        await wrapped.tools()
