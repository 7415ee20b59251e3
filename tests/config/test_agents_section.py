"""The section `agents`: agents with a model, instructions, tools and limits, also as other programs write them."""

from __future__ import annotations

import pytest

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

    model = config.agents[0].model
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
            loop: {maxSteps: 5, maxTokensPerCycle: 50000}
            consciousness: {maxTokens: 100000}
        """
    )

    (helper,) = config.agents
    assert helper.limits == {"steps": 5, "tokens": 50_000}
    assert helper.context_window == 100_000
    assert helper.model.options == {"max_tokens": 900, "reasoning": "high"}
    assert build(config)["helper"].name == "helper"


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
    ],
)
def test_mistakes_are_named_with_their_line(read, section, message):
    with pytest.raises(ConfigError) as caught:
        build(read(f"agents: {section}"))

    assert message in str(caught.value)
    assert "surehand.yaml:1" in str(caught.value)
