"""The section `agents`: agents with a model, instructions, tools and limits, also as other programs write them."""

from __future__ import annotations

import re

import pytest

from surehand import Runtime, tool
from surehand.assemble.agents import build_agents
from surehand.config.config import read_config
from surehand.config.errors import ConfigError

ENVIRONMENT = {"MY_KEY": "sk-secret", "HOST": "127.0.0.1"}


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "surehand.yaml"
        path.write_text(text)
        return read_config(path)

    return read_text


def build(config):
    return {agent.name: agent for agent in build_agents(config, ENVIRONMENT)}


def test_an_agent_has_a_model_instructions_tools_and_limits(read, tmp_path):
    (tmp_path / "instructions.md").write_text("Book trips.")
    config = read(
        """
        agents:
          travel:
            model: "openai:gpt-5-mini"
            instructions: instructions.md
            tools: ["git__*", read]
            limits: {steps: 7, tokens: 200000, cost: 1.5, seconds: 10m}
          poet: {model: "anthropic:claude", instructions: "Write haikus."}
        """
    )

    travel, poet = config.agents
    assert travel.read_instructions() == "Book trips."
    assert travel.tools == ("git__*", "read")
    assert poet.read_instructions() == "Write haikus."
    assert poet.tools is None
    agents = build(config)
    assert agents["travel"].model.name == "openai:gpt-5-mini"
    limits = agents["travel"].limits
    assert (limits.steps, limits.tokens, limits.cost, limits.seconds) == (7, 200_000, 1.5, 600.0)
    assert agents["poet"].limits.steps == 20


def test_agents_of_the_file_call_each_other(read):
    config = read(
        """
        agents:
          boss: {model: "openai:m", agents: [clerk]}
          clerk: {model: "openai:m", description: "Books flights."}
        """
    )

    agents = build(config)
    assert agents["boss"].agents == (agents["clerk"],)
    assert agents["clerk"].tool.description == "Books flights."


def test_a_model_may_be_a_mapping_with_an_address_a_key_and_a_price(read):
    config = read(
        """
        agents:
          local:
            model:
              provider: openai
              model: "qwen3:8b"
              base_url: "http://${HOST}:11434/v1"
              api_key: "${MY_KEY}"
              mode: json
              temperature: 0
              max_tokens: 500
              reasoning: low
              idle_timeout: 2m
              price: {input: 0.25, output: 2}
              options: {seed: 7}
        """
    )

    model = config.agents[0].models[0]
    assert model.name == "openai:qwen3:8b"
    assert model.expand(ENVIRONMENT) == {"base_url": "http://127.0.0.1:11434/v1", "api_key": "sk-secret"}
    assert model.options["idle_timeout"] == 120.0
    assert build(config)["local"].model.name == "openai:qwen3:8b"
    assert "sk-secret" not in repr(config)


def test_agents_of_the_gateway_are_read_with_their_own_keys(read):
    config = read(
        """
        agents:
          helper:
            version: "1.0"
            model:
              {provider: openai, model: gpt-5, maxTokens: 900, reasoning: {enabled: true, effort: high, summary: auto}}
            instructions: "Help."
            loop: {maxSteps: 5, maxTokensPerCycle: 50000, toolChoice: auto}
            consciousness: {maxTokens: 100000}
        """
    )

    (helper,) = config.agents
    assert helper.limits == {"steps": 5, "tokens": 50_000}
    assert helper.context_window == 100_000
    assert helper.models[0].options == {"max_tokens": 900, "reasoning": "high"}
    assert build(config)["helper"].name == "helper"


def test_keys_of_the_gateway_that_have_no_effect_are_warnings_with_their_line(read, caplog):
    config = read(
        """
        agents:
          helper:
            version: "1.0"
            model:
              provider: openai
              model: gpt-5
              reasoning: {effort: low, summary: always}
            loop: {toolChoice: required}
            consciousness: {maxTokens: 100000, minRecentCycles: 3, compactionStrategy: layered}
            middleware: [logging, rag, guardrails]
            approver: {provider: openai, model: gpt-5, reasoning: {summary: auto}}
        """
    )

    assert [each.name for each in config.agents[0].middleware] == ["logging"]
    assert config.agents[0].context_window == 100_000
    assert build(config)["helper"].name == "helper"
    warnings = [re.match(r".*surehand.yaml:(\d+): (\w+) has no effect: .+\.$", each) for each in caplog.messages]
    assert [(int(each[1]), each[2]) for each in warnings] == [
        (4, "version"),
        (8, "summary"),
        (9, "toolChoice"),
        (10, "minRecentCycles"),
        (10, "compactionStrategy"),
        (11, "rag"),
        (11, "guardrails"),
        (12, "summary"),
    ]


async def test_with_tool_choice_none_the_model_is_offered_no_tool(read, caplog):
    config = read(
        """
        agents:
          boss: {model: {scripted: [{answers: [Hi]}]}, agents: [clerk], tools: ["*"], loop: {toolChoice: none}}
          clerk: {model: {scripted: [{answers: [Hi]}]}}
        """
    )
    boss = build(config)["boss"]

    @tool
    async def add() -> int:
        """Add."""
        return 1

    async with Runtime(add, boss) as runtime:
        scope = await runtime.enter_agent(boss)
        assert list(scope.usable_listings()) == []
    assert caplog.messages == []


async def test_tools_of_an_agent_may_be_defined_in_its_entry(read):
    config = read(
        """
        agents:
          helper:
            model: {scripted: [{answers: [{tool: note, arguments: {text: Hi}}, "${result}"]}]}
            tools:
              - "git__*"
              - {name: note, executionType: internal, inputSchema: {properties: {text: {type: string}}}}
        """
    )
    helper = build(config)["helper"]
    assert config.agents[0].tools == ("git__*",)

    async with Runtime(helper) as runtime:
        run = await helper.run("Go", runtime=runtime)
        outcome = await runtime.call("note", {"text": "Hi"})

    assert (run.status, run.text) == ("done", '{"success":true,"args":{"text":"Hi"}}')
    assert outcome.code == "not_found"


async def test_an_approver_an_output_and_parameters_are_read(read, tmp_path):
    schema = "{type: object, properties: {city: {type: string}}, required: [city]}"
    approval = '{"decision": "approve", "reason": "It is harmless."}'
    config = read(
        f"""
        agents:
          boss:
            model: {{scripted: [{{answers: [{{tool: agent__clerk, arguments: {{city: Rome}}}}, Done.]}}]}}
            agents: [clerk]
            tools: []
          clerk:
            model: {{scripted: [{{answers: [{{tool: send, arguments: {{}}}}, '{{"city": "Rome"}}']}}]}}
            approver: {{scripted: [{{answers: ['{approval}']}}]}}
            parameters: {schema}
            output: {schema}
        """
    )

    @tool(confirm=True)
    async def send() -> str:
        """Send a letter."""
        return "Sent."

    agents = build(config)
    async with Runtime(send, *agents.values()) as runtime:
        run = await agents["boss"].run("Go", runtime=runtime)

    assert agents["clerk"].tool.parameters.schema["required"] == ["city"]
    assert (run.status, run.messages[2]["content"]) == ("done", '{"city":"Rome"}')


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{a: {}}", "The agent a has no model"),
        ("{a: {model: gpt-5}}", "A model is written 'provider:name', got 'gpt-5'"),
        ("{a: {model: 'opnai:gpt-5'}}", "Did you mean 'openai:gpt-5'?"),
        ("{a: {model: 'openai:m', modle: x}}", "Unknown key 'modle'"),
        ("{a: {model: {provider: openai}}}", "The model has no name"),
        ("{a: {model: {provider: openai, model: m, mode: xml}}}", "mode must be tools or json"),
        ("{a: {model: {provider: openai, model: m, price: {input: 1}}}}", "A price needs input and output"),
        ("{a: {model: {provider: openai, model: m, api_key: '${NO_KEY}'}}}", "needs the environment variable NO_KEY"),
        ("{a: {model: 'openai:m', limits: {cost: 0}}}", "cost must be a number above 0"),
        ("{a: {model: 'openai:m', instructions: missing.md}}", "cannot be read from missing.md"),
        ("{a: {model: 'openai:m', agents: [b]}}", "There is no agent 'b'"),
        (
            "{a: {model: 'openai:m', agents: [b]}, b: {model: 'openai:m', agents: [c, a]}, c: {model: 'openai:m'}}",
            "Agents call each other in a circle: a > b > a",
        ),
        ("{'a b': {model: 'openai:m'}}", "'a b' cannot be the name of an agent"),
        ("{a: {model: 'openai:m', output: {type: trip}}}", "The JSON Schema in `output` cannot be used"),
        ("{a: {model: 'openai:m', output: Trip}}", "output must be a mapping"),
        ("{a: {model: 'openai:m', parameters: [city]}}", "parameters must be a mapping"),
        ("{a: {model: 'openai:m', approver: gpt-5}}", "A model is written 'provider:name', got 'gpt-5'"),
    ],
)
def test_mistakes_are_named_with_their_line(read, section, message):
    with pytest.raises(ConfigError) as caught:
        build(read(f"agents: {section}"))

    assert message in str(caught.value)
    assert "surehand.yaml:1" in str(caught.value)


CHOICE = """
agents:
  helper:
    model:
      - openai:gpt-5-mini
      - {provider: openai, model: "${LOCAL_MODEL}", base_url: "${LOCAL_URL}"}
      - scripted:
          - {when: order, answers: [{tool: order, arguments: {title: Emma}}, "Ordered: ${result}"]}
          - {answers: ["Hello."]}
"""


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"OPENAI_API_KEY": "sk-1"}, "openai:gpt-5-mini"),
        ({"LOCAL_MODEL": "qwen3:8b", "LOCAL_URL": "http://127.0.0.1:11434/v1"}, "openai:qwen3:8b"),
        ({"LOCAL_URL": "http://127.0.0.1:11434/v1"}, "scripted"),
        ({}, "scripted"),
    ],
)
def test_the_first_model_that_can_be_used_is_the_agents(read, environment, name):
    [helper] = build_agents(read(CHOICE), environment)

    assert helper.model.name == name


async def test_a_scripted_model_answers_by_the_users_last_message(read):
    @tool(effects={"read"})
    async def order(title: str) -> str:
        """Order a book."""
        return f"{title} arrives on Monday"

    [helper] = build_agents(read(CHOICE), {})
    async with Runtime(order) as runtime:
        first = await helper.run("Please ORDER a book.", runtime=runtime)
        second = await helper.run([*first.messages, {"role": "user", "content": "Thank you."}], runtime=runtime)

    assert first.text == "Ordered: Emma arrives on Monday"
    assert second.text == "Hello."


async def test_a_scripted_model_goes_on_in_another_process_after_an_approval(read, tmp_path):
    @tool(effects={"write"}, confirm=True)
    async def order(title: str) -> str:
        """Order a book."""
        return f"{title} arrives on Monday"

    async with Runtime(order, store=tmp_path / "s.db") as runtime:
        [helper] = build_agents(read(CHOICE), {})
        run = await helper.run("Order one.", runtime=runtime)
    async with Runtime(order, store=tmp_path / "s.db") as runtime:
        [helper] = build_agents(read(CHOICE), {})
        await runtime.approve(run.waiting[0].call_id)
        run = await helper.resume(run.id, runtime=runtime)

    assert run.text == "Ordered: Emma arrives on Monday"


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("[]", "The list of models is empty"),
        ("{scripted: []}", "The scripted model has no rules"),
        ("{scripted: [{when: '(', answers: [a]}]}", "is not a regular expression"),
        ("{scripted: [{answers: []}]}", "A rule needs at least one answer"),
        ("{scripted: [{when: a}]}", "A rule has no answers"),
        ("{scripted: [{answers: [{arguments: {}}]}]}", "An answer is a text, or a call with its tool"),
        ("{scripted: [{answer: [a]}]}", "Unknown key 'answer'"),
    ],
)
def test_a_mistake_in_a_scripted_model_is_named(read, model, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        read(f"agents: {{a: {{model: {model}}}}}")


def test_a_list_of_models_without_one_that_can_be_used_says_what_to_set(read):
    with pytest.raises(ConfigError, match="None of the models of a can be used"):
        build_agents(read("agents: {a: {model: ['openai:m', 'anthropic:m']}}"), {})
