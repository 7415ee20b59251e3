"""Cached results, shared flights and standing approvals of one scope are not those of another."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from surehand import Cache, Context, Pending, Policy, Runtime, middleware, tool, use
from surehand.runtime.invocation.object_tokens import ObjectTokens
from surehand.testing import settle


class Database:
    """Something that a scope offers."""

    def __init__(self, name: str) -> None:
        self.name = name


def reading(**facets: Any) -> Any:
    @tool(**{"effects": {"read"}, "cache": 60, **facets})
    async def read(key: str = "k", database: Database = use(Database)) -> str:
        """Read a value."""
        await asyncio.sleep(0)
        return database.name

    return read


def own(answer: str, **facets: Any) -> Any:
    """A tool with the same definition each time, which does something else each time."""

    @tool(**{"effects": {"read"}, "cache": 60, **facets})
    async def look() -> str:
        """Look something up."""
        await asyncio.sleep(0)
        return answer

    return look


def cached_by(way: str) -> tuple[dict[str, Any], list[Any]]:
    """Facets and middleware that cache the results of a tool."""
    match way:
        case "facet":
            return {"cache": 60}, []
        case "shared facet":
            return {"cache": Cache(60, shared=True)}, []
    return {"cache": None}, [middleware.caching(60)]


WAYS = pytest.mark.parametrize("way", ["facet", "shared facet", "middleware"])


@WAYS
async def test_a_cached_result_is_not_given_to_a_scope_that_offers_something_else(way):
    facets, wrappers = cached_by(way)

    async with Runtime(reading(**facets), middleware=wrappers) as runtime:
        one, two = runtime.scope(Database("one")), runtime.scope(Database("two"))
        answers = [(await scope.call("read")).data for scope in (one, two, one, two)]

    assert answers == ["one", "two", "one", "two"]


@WAYS
async def test_scopes_that_offer_the_same_object_share_a_result(way):
    facets, wrappers = cached_by(way)
    database = Database("one")

    async with Runtime(reading(**facets), middleware=wrappers) as runtime:
        await runtime.scope(database).call("read")
        again = await runtime.scope(database).call("read")

    assert again.meta.cached


@WAYS
async def test_a_cached_result_of_a_scopes_own_tool_is_not_given_to_another_scope(way):
    facets, wrappers = cached_by(way)

    async with Runtime(own("runtime", **facets), middleware=wrappers) as runtime:
        one = runtime.scope(tools=[own("one", **facets)])
        two = runtime.scope(tools=[own("two", **facets)])
        answers = [(await scope.call("look")).data for scope in (runtime, one, two, runtime, one, two)]

    assert answers == ["runtime", "one", "two"] * 2


@pytest.mark.parametrize("way", ["facet", "middleware"])
async def test_a_cached_result_is_not_given_to_another_session_or_user(way):
    facets, wrappers = cached_by(way)

    @tool(effects={"read"}, **facets)
    async def who(ctx: Context) -> str:
        """Say whose call it is."""
        return f"{ctx.user} {ctx.session}"

    async with Runtime(who, middleware=wrappers) as runtime:
        whose = [("ann", "s1"), ("ann", "s2"), ("bob", "s1"), (None, "s1"), ("ann", None), (None, None)]
        answers = [(await runtime.scope(user=user, session=session).call("who")).data for user, session in whose]
        again = await runtime.scope(user="ann", session="s1").call("who")

    assert answers == [f"{user} {session}" for user, session in whose]
    assert again.meta.cached


async def test_a_shared_result_is_for_all_users_and_sessions():
    look = own("same", cache=Cache(60, shared=True))

    async with Runtime(look) as runtime:
        await runtime.scope(user="ann", session="s1").call("look")
        assert (await runtime.scope(user="bob", session="s2").call("look")).meta.cached


@pytest.mark.parametrize("shared", [False, True])
async def test_a_flight_is_not_shared_with_a_scope_that_offers_or_has_something_else(shared):
    cache = Cache(60, shared=shared)

    async with Runtime(reading(cache=cache), own("runtime", cache=cache)) as runtime:
        scopes = [runtime.scope(Database(name)) for name in "abc"]
        reads = await asyncio.gather(*(scope.call("read") for scope in scopes))
        owners = [runtime, *(runtime.scope(tools=[own(name, cache=cache)]) for name in "ab")]
        looks = await asyncio.gather(*(scope.call("look") for scope in owners))

    assert [outcome.data for outcome in reads] == ["a", "b", "c"]
    assert [outcome.data for outcome in looks] == ["runtime", "a", "b"]


async def test_a_flight_is_not_shared_with_another_session():
    opened = asyncio.Event()
    ran: list[Any] = []

    @tool(effects={"read"}, cache=60)
    async def slow(ctx: Context) -> str:
        """Take a while."""
        ran.append(ctx.session)
        await opened.wait()
        return str(ctx.session)

    async with Runtime(slow) as runtime:
        calls = [asyncio.create_task(runtime.scope(user="ann", session=each).call("slow")) for each in ("s1", "s2")]
        await settle()
        opened.set()
        outcomes = await asyncio.gather(*calls)

    assert [outcome.data for outcome in outcomes] == ["s1", "s2"]
    assert ran == ["s1", "s2"]


async def test_cached_results_of_a_tool_that_a_session_offers_belong_to_that_session():
    async with Runtime() as runtime:
        scopes = [runtime.scope(user=user, session=session) for user, session in (("ann", "s1"), ("bob", "s1"))]
        for scope in scopes:
            scope.offer(own(f"of {scope.principal.user}", cache=Cache(60, shared=True)))
        answers = [(await scope.call("look")).data for scope in scopes * 2]

    assert answers == ["of ann", "of bob"] * 2


async def test_folders_of_a_scope_belong_to_the_key(tmp_path):
    @tool(effects={"read"}, cache=Cache(60, shared=True))
    async def where(ctx: Context) -> str:
        """Say which folder."""
        return str(ctx.memory_dir)

    async with Runtime(where) as runtime:
        folders = [str(tmp_path / name) for name in "ab"]
        assert [(await runtime.scope(memory_dir=folder).call("where")).data for folder in folders] == folders


# Standing approvals


def paying(done: list[str], name: str) -> Any:
    @tool(effects={"write"}, confirm=True)
    async def pay(amount: int = 1) -> str:
        """Pay."""
        done.append(name)
        return name

    return pay


async def approve_always(scope: Any, name: str = "pay") -> None:
    pending = await scope.call(name)
    assert isinstance(pending, Pending)
    assert (await scope.approve(pending.call_id, always=True)).ok


async def is_asked(scope: Any, name: str = "pay") -> bool:
    return isinstance(await scope.call(name), Pending)


async def test_always_for_the_runtimes_tool_does_not_cover_a_scopes_own_tool_of_the_same_definition():
    done: list[str] = []

    async with Runtime(paying(done, "runtime")) as runtime:
        await approve_always(runtime)
        one = runtime.scope(tools=[paying(done, "one")])
        assert await is_asked(one)
        await approve_always(one)
        assert not await is_asked(one)
        assert await is_asked(runtime.scope(tools=[paying(done, "two")]))
        assert not await is_asked(runtime)

    assert done == ["runtime", "one", "one", "runtime"]


async def test_always_in_a_scope_does_not_cover_a_scope_that_offers_something_else():
    @tool(effects={"write"}, confirm=True)
    async def write(database: Database = use(Database)) -> str:
        """Write."""
        return database.name

    test, production = Database("test"), Database("production")
    async with Runtime(write) as runtime:
        await approve_always(runtime.scope(test), "write")
        assert not await is_asked(runtime.scope(test), "write")
        assert await is_asked(runtime.scope(production), "write")


async def test_always_in_a_session_holds_in_that_session_alone():
    done: list[str] = []

    async with Runtime(paying(done, "runtime")) as runtime:
        ann = runtime.scope(user="ann")
        await approve_always(ann.scope(session="s1"))
        assert not await is_asked(ann.scope(session="s1"))
        assert await is_asked(ann.scope(session="s2"))
        assert await is_asked(ann)
        assert await is_asked(runtime.scope(user="bob", session="s1"))
        [grant] = await runtime.grants()

    assert (grant.tool, grant.user, grant.session) == ("pay", "ann", "s1")


async def test_always_without_a_session_holds_in_all_sessions_of_the_user():
    async with Runtime(paying([], "runtime")) as runtime:
        ann = runtime.scope(user="ann")
        await approve_always(ann)
        assert not await is_asked(ann.scope(session="s1"))
        [grant] = await runtime.grants()

    assert grant.session is None


async def test_revoking_covers_all_sessions_and_scopes_of_a_user():
    async with Runtime(paying([], "runtime")) as runtime:
        ann = runtime.scope(user="ann")
        for scope in (ann, ann.scope(session="s1"), ann.scope(Database("x"))):
            await approve_always(scope) if await is_asked(scope) else None
        assert await ann.revoke("pay")
        assert await runtime.grants() == []
        assert await is_asked(ann.scope(session="s1"))


async def test_always_for_a_tool_that_a_session_offers_holds_when_it_is_offered_again():
    async with Runtime() as runtime:
        ann = runtime.scope(user="ann", session="s1")
        ann.offer(paying([], "first"))
        await approve_always(ann)
        ann.offer(paying([], "again"))
        assert not await is_asked(ann)
        bob = runtime.scope(user="bob", session="s1")
        bob.offer(paying([], "other"))
        assert await is_asked(bob)


async def test_always_given_where_the_scope_is_unknown_covers_one_call_only(tmp_path):
    done: list[str] = []
    address = str(tmp_path / "calls.db")
    async with Runtime(paying(done, "first"), store=address) as runtime:
        pending = await runtime.scope(Database("test"), user="ann").call("pay")
    async with Runtime(paying(done, "second"), store=address) as runtime:
        assert (await runtime.approve(pending.call_id, always=True)).ok
        assert await runtime.grants() == []
        assert await is_asked(runtime.scope(user="ann"))

    assert done == ["second"]


async def test_a_policy_that_asks_is_bound_in_the_same_way():
    @tool(effects={"write"})
    async def save() -> str:
        """Save."""
        return "saved"

    async with Runtime(save, policy=Policy.default()) as runtime:
        await approve_always(runtime.scope(session="s1"), "save")
        assert not await is_asked(runtime.scope(session="s1"), "save")
        assert await is_asked(runtime.scope(session="s2"), "save")


# Tokens


def test_an_object_has_one_token_and_no_other_object_gets_it():
    tokens = ObjectTokens()
    seen = set()

    for _ in range(1_000):
        database = Database("x")  # Python uses its address again for the next one
        assert tokens.token_of(database) == tokens.token_of(database)
        seen.add(tokens.token_of(database))
        del database
    gc.collect()

    assert len(seen) == 1_000
    assert not tokens._tokens


def test_plain_values_are_compared_by_type_and_content():
    tokens = ObjectTokens()

    assert tokens.token_of("x" * 1_000) == tokens.token_of("x" * 1_000)
    assert tokens.token_of({"a": [1]}) == tokens.token_of({"a": [1]})
    assert len({tokens.token_of(value) for value in ("1", 1, 1.0, [1], (1,), True)}) == 6
    assert ObjectTokens().token_of(Database("x")) != ObjectTokens().token_of(Database("x"))
