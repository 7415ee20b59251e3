"""Choosing a model by `provider:name`, and what is said if that cannot work."""

from __future__ import annotations

import sys

import pytest

from surehand import DefinitionError
from surehand.agent.models.base import Model
from surehand.agent.models.choose import choose_model
from surehand.agent.models.scripted import ScriptedModel
from tests.agent.models.byte_server import serve
from tests.agent.models.wires import answer_events, collect, fail

_VARIABLES = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
              "ANTHROPIC_BASE_URL")  # fmt: skip


@pytest.fixture(autouse=True)
def no_variables(monkeypatch, tmp_path):
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # the SDKs read profiles there


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
def test_a_name_gives_a_model_of_its_provider(provider):
    model = choose_model(f"{provider}:some-model:latest")

    assert isinstance(model, Model)
    assert model.name == f"{provider}:some-model:latest"


def test_a_model_is_taken_as_it_is():
    scripted = ScriptedModel("Hello.")
    assert choose_model(scripted) is scripted


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", "A model is written 'provider:name', got 'gpt-5'."),
        ("openai:", "A model is written 'provider:name', got 'openai:'."),
        ("antropic:claude", "There is no provider 'antropic' of models. Did you mean 'anthropic:claude'?"),
        ("ollama:qwen", "Other servers speak one of these APIs: give their `base_url=`."),
    ],
)
def test_an_unknown_name_is_refused_with_what_is_known(name, message):
    with pytest.raises(DefinitionError) as caught:
        choose_model(name)

    assert message in str(caught.value)


def test_a_missing_sdk_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)

    with pytest.raises(DefinitionError, match=r"needs the SDK anthropic: pip install .*\[anthropic\]"):
        choose_model("anthropic:claude")


def test_an_unknown_mode_is_refused():
    with pytest.raises(DefinitionError, match="'tools' or 'json', got 'xml'"):
        choose_model("openai:m", mode="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
async def test_a_missing_key_fails_the_request_with_the_name_of_the_variable(provider):
    error = await fail(choose_model(f"{provider}:m1"))

    variable = "ANTHROPIC_API_KEY" if provider == "anthropic" else "OPENAI_API_KEY"
    assert str(error) == f"{provider}:m1 needs an API key: set {variable}, or give `api_key=`."
    assert not error.retryable


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("by_variable", [True, False])
async def test_a_server_of_one_s_own_needs_no_key(provider, by_variable, monkeypatch):
    async with serve(b"".join(answer_events(provider))) as server:
        if by_variable:
            monkeypatch.setenv("ANTHROPIC_BASE_URL" if provider == "anthropic" else "OPENAI_BASE_URL", server.url)
        _, answer = await collect(choose_model(f"{provider}:m1", base_url=None if by_variable else server.url))

    assert answer.text


async def test_a_client_of_the_program_is_used_and_not_closed():
    from openai import AsyncOpenAI

    async with serve(b"".join(answer_events("openai"))) as server:
        async with AsyncOpenAI(base_url=server.url, api_key="of-the-program") as client:
            model = choose_model("openai:m1", client=client)
            await collect(model)
            await collect(model)

            assert not client.is_closed()
        assert server.headers[0]["authorization"] == "bearer of-the-program"
