"""Which tools an agent has; what is not among them cannot be called by it."""

import pytest

from surehand import Agent, DefinitionError, Provider, Runtime, tool
from surehand.testing import ScriptedModel, settle
from tests.agent.conftest import add


@tool(toolsets="numbers")
async def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


@tool
async def secret() -> str:
    """A secret."""
    return "xyzzy"


@tool(audience="user")
async def reset() -> None:
    """For people only."""


def shown(model):
    return [entry["function"]["name"] for entry in model.requests[0].tools]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (None, ["add", "subtract", "secret"]),
        ([], []),
        (["add"], ["add"]),
        (["*t"], ["subtract", "secret"]),
        (["numbers"], ["subtract"]),
        ([add], ["add"]),
        ([secret, "add"], ["secret", "add"]),
    ],
)
async def test_texts_are_names_globs_or_toolsets_and_tools_are_its_own(tools, expected):
    sources = [each for each in (add, subtract, secret, reset) if tools is None or each not in tools]
    model = ScriptedModel("Hi")
    async with Runtime(*sources) as runtime:
        await Agent("a", model=model, tools=tools).run("Go", runtime=runtime)

    assert shown(model) == expected


async def test_a_tool_that_is_not_the_agents_cannot_be_called(store):
    model = ScriptedModel([("secret", {}), ("add", {"a": 1, "b": 2})], "Hm.")
    async with Runtime(add, secret, store=store) as runtime:
        await Agent("a", model=model, tools=["add"]).run("Go", runtime=runtime)

    [refused, three] = [message["content"] for message in model.requests[1].messages if message["role"] == "tool"]
    assert "secret is not allowed here" in refused
    assert three == "3"


async def test_an_agents_own_tool_is_not_a_tool_of_the_runtime(store):
    model = ScriptedModel([("secret", {})], "Hm.")
    async with Runtime(add, store=store) as runtime:
        run = await Agent("a", model=model, tools=[secret]).run("Go", runtime=runtime)
        outcome = await runtime.call("secret")

    assert run.messages[2]["content"] == "xyzzy"
    assert outcome.code == "not_found"


async def test_an_agent_that_names_tools_of_a_runtime_needs_one():
    with pytest.raises(DefinitionError, match="pass the runtime"):
        await Agent("a", model=ScriptedModel("Hi"), tools=["add"]).run("Go")


async def test_hosted_tools_are_given_to_the_model_as_they_are():
    search = tool.hosted("web_search", options={"openai": {"type": "web_search"}})
    model = ScriptedModel("Hi")
    async with Runtime(add, search) as runtime:
        await Agent("a", model=model).run("Go", runtime=runtime)

    assert shown(model) == ["add"]
    assert model.requests[0].hosted == (search,)


async def test_an_agents_own_tool_is_approved_by_a_process_without_the_agent(tmp_path):
    store = str(tmp_path / "agent.db")
    booked = []

    @tool(confirm=True, effects={"write"})
    async def book(flight: str) -> str:
        """Book a flight."""
        booked.append(flight)
        return f"Booked {flight}."

    async with Runtime(store=store) as runtime:
        agent = Agent("travel", model=ScriptedModel([("book", {"flight": "TW7"})]), tools=[book])
        run = await agent.run("Fly", runtime=runtime, user="ada")

    async with Runtime(store=store) as other:
        [wait] = await other.pending()
        approved = await other.approve(wait.call_id)

        assert booked == []
        assert "the agent travel, which is not here" in approved.message

    agent = Agent("travel", model=ScriptedModel("Booked."), tools=[book])
    async with Runtime(agent, store=store) as runtime:
        run = await agent.resume(run.id, runtime=runtime)

    assert (run.status, run.text, booked) == ("done", "Booked.", ["TW7"])


async def test_a_standing_approval_of_an_agents_own_tool_is_remembered_in_other_processes(tmp_path):
    store = str(tmp_path / "agent.db")
    booked = []

    def build_agent(*replies):
        @tool(confirm=True, effects={"write"})
        async def book(flight: str) -> str:
            """Book a flight."""
            booked.append(flight)
            return f"Booked {flight}."

        return Agent("travel", model=ScriptedModel(*replies), tools=[book])

    async with Runtime(store=store) as runtime:
        run = await build_agent([("book", {"flight": "TW7"})]).run("Fly", runtime=runtime, user="ada", session="s1")
    async with Runtime(store=store) as other:  # without the agent
        [wait] = await other.pending()
        await other.approve(wait.call_id, always=True)
    agent = build_agent("Booked.", [("book", {"flight": "TW8"})], "Booked again.", [("book", {"flight": "TW9"})])
    async with Runtime(agent, store=store) as runtime:
        first = await agent.resume(run.id, runtime=runtime)
        second = await agent.run("Fly again", runtime=runtime, user="ada", session="s1")
        of_another_user = await agent.run("Fly", runtime=runtime, user="eve", session="s1")

    assert [each.status for each in (first, second, of_another_user)] == ["done", "done", "waiting"]
    assert booked == ["TW7", "TW8"]


async def test_a_lazy_tool_may_be_an_agents_own(store):
    made = []

    async def build(init):
        made.append(init.working_dir)

        @tool
        async def slow(n: int) -> int:
            """Double a number."""
            return n * 2

        return slow

    model = ScriptedModel([("double", {"n": 4})], "8", [("double", {"n": 5})], "10")
    agent = Agent("a", model=model, tools=[tool.lazy("double", build)])
    assert made == []
    async with Runtime(agent, store=store) as runtime:
        first = await agent.run("Go", runtime=runtime)
        second = await agent.run("Go", runtime=runtime)

        assert "double" not in runtime.catalogue
        assert made == [runtime.workspace]
    results = [each.messages[2]["content"] for each in (first, second)]
    assert (shown(model), results) == (["double"], ["8", "10"])


async def test_without_a_runtime_a_lazy_tool_of_the_agent_is_made_too():
    agent = Agent("a", model=ScriptedModel([("one", {})], "1"), tools=[tool.lazy("one", lambda: lambda: 1)])

    assert (await agent.run("Go")).messages[2]["content"] == "1"


async def test_a_factory_that_fails_names_the_tool_of_the_agent():
    def fail():
        raise OSError("no disk")

    agent = Agent("a", model=ScriptedModel("Hi"), tools=[tool.lazy("one", fail)])
    with pytest.raises(DefinitionError, match="The factory of one failed: OSError: no disk"):
        async with Runtime(agent):
            pass


class Numbers(Provider):
    """A provider that counts how often it is started and stopped."""

    namespace = "numbers"

    def __init__(self):
        self.log = []

    async def start(self):
        self.log.append("start")

    async def stop(self):
        self.log.append("stop")

    async def tools(self):
        return [
            tool.provided(
                "double", "Double a number.", parameters={"type": "object", "properties": {"n": {"type": "integer"}}}
            )
        ]

    async def invoke(self, call, context):
        return call.arguments["n"] * 2


@pytest.mark.parametrize("is_source", [True, False])
async def test_a_runtime_starts_the_providers_of_its_agents(store, is_source):
    provider = Numbers()
    model = ScriptedModel([("numbers__double", {"n": 2})], "4", "again")
    agent = Agent("counter", model=model, tools=[provider])
    async with Runtime(*([agent] if is_source else []), store=store) as runtime:
        run = await agent.run("Go", runtime=runtime)
        await agent.run("Go", runtime=runtime)
        outcome = await runtime.call("numbers__double", {"n": 2})

    assert run.messages[2]["content"] == "4"
    assert outcome.code == "not_found"
    assert provider.log == ["start", "stop"]


async def test_without_a_runtime_the_agent_starts_its_providers_itself():
    provider = Numbers()
    model = ScriptedModel([("numbers__double", {"n": 2})], "4")

    run = await Agent("counter", model=model, tools=[provider]).run("Go")

    assert run.messages[2]["content"] == "4"
    assert provider.log == ["start", "stop"]


async def test_two_agents_of_one_name_are_refused():
    first = Agent("a", model=ScriptedModel("Hi"))
    second = Agent("a", model=ScriptedModel("Hi"))
    with pytest.raises(DefinitionError, match="has another agent 'a'"):
        Runtime(first, second)
    async with Runtime(first) as runtime:
        with pytest.raises(DefinitionError, match="has another agent 'a'"):
            await runtime.add(second)


async def test_an_agent_that_is_built_anew_takes_the_place_of_the_old_one(store):
    async with Runtime(store=store) as runtime:
        for text in ("one", "two"):
            agent = Agent("a", model=ScriptedModel([("secret", {})], text), tools=[secret])

            assert (await agent.run("Go", runtime=runtime)).text == text


async def test_an_agent_can_be_added_while_the_runtime_runs():
    agent = Agent("a", model=ScriptedModel([("secret", {})], "Hm."), tools=[secret])
    async with Runtime() as runtime:
        await runtime.add(agent)
        run = await agent.run("Go", runtime=runtime)

    assert run.messages[2]["content"] == "xyzzy"


async def test_a_tool_that_a_provider_takes_away_can_no_longer_be_called():
    provider = ChangingNumbers()
    model = ScriptedModel([("numbers__double", {"n": 2})], "4", [("numbers__double", {"n": 2})], "gone")
    agent = Agent("counter", model=model, tools=[provider])
    async with Runtime(agent) as runtime:
        first = await agent.run("Go", runtime=runtime)
        provider.take_away()
        await settle()
        second = await agent.run("Go", runtime=runtime)

    assert first.messages[2]["content"] == "4"
    assert second.messages[2]["is_error"] is True
    assert model.requests[2].tools == []


class ChangingNumbers(Numbers):
    """A provider that tells when its tools have changed."""

    def __init__(self):
        super().__init__()
        self.has_tools = True
        self.changed = []

    def watch(self, on_change):
        self.changed.append(on_change)
        return lambda: self.changed.remove(on_change)

    def take_away(self):
        self.has_tools = False
        self.changed[0]()

    async def tools(self):
        return await super().tools() if self.has_tools else []
