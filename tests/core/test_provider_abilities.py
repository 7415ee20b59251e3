"""What a provider supports is found once, when it is added, and a protocol that it gets wrong is reported then."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from surehand import DefinitionError, Pending, Provider, Runtime, filtered, protocols, tool
from surehand.core.provider_abilities import _PROTOCOLS, ProviderAbilities, find_abilities


class Lamps(Provider):
    """The simple case: two methods."""

    namespace = "lamps"

    async def tools(self) -> Any:
        return [tool.provided("switch", "Switch a lamp.")]

    async def invoke(self, call: Any, context: Any) -> Any:
        return Pending("input", message="Which?")


def supported(provider: Provider) -> list[str]:
    abilities = find_abilities(provider)
    names = [field.name for field in fields(ProviderAbilities) if field.name != "traits"]
    return [name for name in names if getattr(abilities, name) is not None]


def test_a_provider_has_ten_public_members_at_most() -> None:
    assert len([name for name in dir(Provider) if not name.startswith("_")]) <= 10


async def test_two_methods_make_a_provider_whose_answers_are_results() -> None:
    assert supported(Lamps()) == []

    async with Runtime(Lamps()) as runtime:
        outcome = await runtime.call("lamps__switch")
        assert (await runtime.settle(outcome.call_id, "the one on the desk")).data == "the one on the desk"
        await runtime.refresh()
        assert await runtime.scope(user="anna").load_user_tools() == {}
        assert runtime.instructions() == ""


def test_a_protocol_is_supported_by_defining_its_methods() -> None:
    class Started(Lamps):
        async def start(self) -> None: ...

        async def cancel(self, call: Any, reason: str) -> None: ...

        def instructions(self, principal: Any, *, language: str = "en") -> str:
            return ""

    assert supported(Started()) == ["startable", "instructive", "cancellable"]


def test_an_object_that_passes_everything_on_supports_what_the_other_one_does() -> None:
    class Proxy(Provider):
        def __getattr__(self, name: str) -> Any:
            if name == "stop":
                return lambda: None
            raise AttributeError(name)

    assert supported(Proxy()) == ["stoppable"]


async def test_what_a_provider_supports_is_looked_for_once_when_it_is_added() -> None:
    looked_for: list[str] = []

    class Observed(Lamps):
        def __getattribute__(self, name: str) -> Any:
            looked_for.append(name)
            return super().__getattribute__(name)

        async def cancel(self, call: Any, reason: str) -> None: ...

        async def check_call(self, call: Any) -> None: ...

    runtime = Runtime(Observed())
    assert {"start", "resume", "is_hidden_from"} <= set(looked_for)
    looked_for.clear()

    async with runtime:
        outcome = await runtime.call("lamps__switch")
        await runtime.settle(outcome.call_id, "hall")
        await runtime.call("lamps__none")
        runtime.instructions()
        runtime.describe("mcp")

    optional = {name for protocol in _PROTOCOLS.values() for name in vars(protocol) if name[0] != "_"}
    assert optional & set(looked_for) == set()


def test_a_method_with_other_parameters_is_an_error_when_the_provider_is_added() -> None:
    class Old(Lamps):
        async def resume(self, call: Any, state: Any, answer: Any) -> Any: ...

    with pytest.raises(
        DefinitionError, match=r"Old.resume takes .*is called as resume\(call, state, answer, context\)"
    ):
        Runtime(Old())
    with pytest.raises(DefinitionError, match=r"define it as resume\(call, state, answer, context\)"):
        filtered(Old())


def test_a_member_that_is_no_method_is_an_error_when_the_provider_is_added() -> None:
    class Text(Lamps):
        instructions = "Be careful."

    with pytest.raises(
        DefinitionError, match=r"Text.instructions is not a method. Fix: define instructions\(principal\)"
    ):
        Runtime(Text())


def test_half_a_protocol_is_an_error_when_the_provider_is_added() -> None:
    class Half(Lamps):
        def can_resume_here(self, state: Any) -> bool:
            return False

    with pytest.raises(DefinitionError, match="Half defines can_resume_here, but not resume_failure"):
        Runtime(Half())


def test_a_provider_of_users_must_be_able_to_ask_for_their_tools() -> None:
    class Users(Lamps):
        def has_tools_for(self, principal: Any) -> bool:
            return False

        def is_hidden_from(self, principal: Any, tool: str) -> bool:
            return False

    class Growing(Lamps):
        traits = protocols.ProviderTraits(may_gain_tools=True)

    with pytest.raises(DefinitionError, match=r"different tools for different users.*define refresh\(principal\)"):
        Runtime(Users())
    with pytest.raises(DefinitionError, match=r"Growing may gain tools.*define refresh\(principal\)"):
        Runtime(Growing())


async def test_a_provider_of_users_is_refreshed_for_a_user_whose_tools_are_unknown() -> None:
    class Users(Lamps):
        def __init__(self) -> None:
            self.asked: list[str | None] = []

        def has_tools_for(self, principal: Any) -> bool:
            return principal.user in self.asked

        def is_hidden_from(self, principal: Any, tool: str) -> bool:
            return principal.user != "anna"

        async def refresh(self, principal: Any) -> None:
            self.asked.append(None if principal is None else principal.user)

    users = Users()
    async with Runtime(filtered(users)) as runtime:
        anna = runtime.scope(user="anna")
        await anna.load_user_tools()
        await anna.load_user_tools()
        await runtime.refresh()

        assert users.asked == ["anna", None]
        assert [entry["name"] for entry in anna.describe("mcp")] == ["lamps__switch"]
        assert runtime.scope(user="ben").describe("mcp") == []


def test_a_wrapper_supports_what_the_wrapped_provider_supports() -> None:
    class Users(Lamps):
        traits = protocols.ProviderTraits(cancels_promptly=True)

        async def stop(self) -> None: ...

    assert find_abilities(filtered(Users())).traits.cancels_promptly
    assert {"stoppable"} <= set(supported(filtered(Users())))
    assert {"startable", "watchable", "per_user", "refreshable"}.isdisjoint(supported(filtered(filtered(Users()))))
