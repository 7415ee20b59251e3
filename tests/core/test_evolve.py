"""Further instances of one tool: `tool.evolve(...)`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from surehand import Context, DefinitionError, Pending, Runtime, tool, use


@dataclass(frozen=True)
class Sandbox:
    name: str


@tool(effects={"read"}, aliases=("r",))
async def read(path: str, ctx: Context, sandbox: Sandbox = use(Sandbox)) -> str:
    """Read a file."""
    return f"{sandbox.name}:{path}"


@tool
def count(path: str, sandbox: Sandbox | None = use(Sandbox)) -> str:
    """Count a file."""
    return "none" if sandbox is None else sandbox.name


async def test_two_instances_of_one_tool_have_two_dependencies_side_by_side_in_one_scope():
    left = read.evolve(name="read_left", aliases=(), use={"sandbox": Sandbox("left")})
    right = read.evolve(name="read_right", aliases=(), use={"sandbox": Sandbox("right")})

    async with Runtime(read, left, right) as runtime:
        scope = runtime.scope(Sandbox("offered"))
        texts = [(await scope.call(name, {"path": "a"})).text for name in ("read", "read_left", "read_right")]

    assert texts == ["offered:a", "left:a", "right:a"]


async def test_an_instance_keeps_its_value_whatever_a_scope_offers_and_without_a_runtime():
    own = count.evolve(use={"sandbox": Sandbox("own")})

    assert (await own.run({"path": "a"})).data == "own"
    assert (await count.run({"path": "a"})).data == "none"
    async with Runtime(own) as runtime:
        assert (await runtime.scope(Sandbox("offered")).call("count", {"path": "a"})).data == "own"


async def test_an_instance_of_an_instance_keeps_what_the_first_was_given():
    own = count.evolve(use={"sandbox": Sandbox("own")}).evolve(name="other")

    assert (await own.run({"path": "a"})).data == "own"


async def test_an_instance_of_a_method_keeps_its_changes_when_it_is_bound():
    class Box:
        @tool
        def count(self, path: str, sandbox: Sandbox = use(Sandbox)) -> str:
            """Count a file."""
            return sandbox.name

        own = count.evolve(name="own", use={"sandbox": Sandbox("mine")})

    async with Runtime(Box()) as runtime:
        assert (await runtime.call("own", {"path": "a"})).data == "mine"


async def test_the_schema_of_an_instance_is_that_of_its_tool():
    assert read.evolve(name="other", use={"sandbox": Sandbox("x")}).schema == read.schema


async def test_options_of_a_tool_can_be_changed_and_the_others_stay():
    careful = read.evolve(name="careful", description="Read with care.", confirm=True, timeout="5s")

    assert careful.description == "Read with care."
    assert careful.limits.timeout == 5.0
    assert (careful.effects, careful.repeatable, careful.aliases) == (frozenset({"read"}), True, ("r",))
    assert read.safety.confirm is False
    async with Runtime(careful) as runtime:
        assert isinstance(await runtime.scope(Sandbox("x")).call("careful", {"path": "a"}), Pending)


def test_changed_effects_decide_whether_calls_may_be_repeated():
    assert read.evolve(effects={"write"}).repeatable is False
    assert read.evolve(effects={"write"}, repeatable=True).repeatable is True


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"use": {"sandbx": Sandbox("x")}}, "no parameter 'sandbx' that use(...) marks. Fix: its parameters"),
        ({"use": {"path": "a"}}, "read has no parameter 'path' that use(...) marks"),
        ({"use": {"sandbox": "a text"}}, "sandbox of read must be a Sandbox, not str"),
        ({"confrim": True}, "did you mean 'confirm'"),
        ({"cache": 5, "effects": {"write"}}, "cannot be cached"),
    ],
)
def test_changes_that_cannot_work_are_definition_errors(changes, problem):
    with pytest.raises(DefinitionError) as error:
        read.evolve(**changes)

    assert problem in str(error.value)


def test_a_tool_without_a_function_takes_no_values():
    show = tool.client("show", "Show a page.")

    with pytest.raises(DefinitionError, match="show has no function, so `use` has no effect"):
        show.evolve(use={"sandbox": Sandbox("x")})
