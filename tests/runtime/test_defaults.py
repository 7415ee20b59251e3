"""Defaults are validated when the runtime is created, not when a tool is called."""

import pytest

from surehand import DefinitionError, Runtime, tool
from surehand.runtime.defaults import _FIELD_PARSERS, Defaults

NOTHING = object()


@tool
async def say(text: str) -> str:
    """Say something."""
    return text


async def test_a_size_may_be_text():
    async with Runtime(say, defaults={"max_output": "1kB"}) as runtime:
        whole = await runtime.call("say", {"text": "x" * 1_000})
        cut = await runtime.call("say", {"text": "x" * 1_001})

    assert whole.text == "x" * 1_000
    assert cut.text.startswith('{"tool_output":')


@pytest.mark.parametrize(
    ("given", "read"),
    [({"tool_timeout": "5m"}, 300.0), ({"tool_timeout": "off"}, None), ({"tool_timeout": None}, None),
     ({"pending_ttl": "1d"}, 86_400.0), ({"max_input": "1MiB"}, 1 << 20), ({"max_output": 1e5}, 100_000),
     ({"max_concurrent": "OFF"}, None), ({"max_concurrent": 3}, 3), ({"retry_delay": 0}, 0.0),
     ({"retry_delay": "500ms"}, 0.5), ({"breaker_pause": "0s"}, 0.0), ({"breaker_failures": 1}, 1),
     ({"mcp_init_concurrency": 2}, 2)],
)  # fmt: skip
def test_values_may_be_written_as_text(given, read):
    [name] = given

    assert getattr(Runtime(defaults=given).defaults, name) == read


@pytest.mark.parametrize("name", _FIELD_PARSERS)
@pytest.mark.parametrize("value", ["much", "", -1, True, float("nan"), [], {}, NOTHING, "1e9", "9" * 400])
def test_an_invalid_value_is_rejected_with_its_name_its_value_and_the_fix(name, value):
    value = 1 if (name, value) == ("trace_mcp", True) else value
    with pytest.raises(DefinitionError) as refused:
        Runtime(say, defaults={name: value})

    assert refused.value.problem == f"The default {name} has an invalid value: {repr(value)[:80]}."
    assert refused.value.fix.startswith("use ")


@pytest.mark.parametrize(
    "given", [{"tool_timeout": 0}, {"tool_timeout": float("inf")}, {"pending_ttl": "0s"}, {"max_output": 0},
              {"max_output": None}, {"max_output": 1.5}, {"max_concurrent": 0}, {"max_concurrent": 2.5},
              {"breaker_failures": None}, {"retry_delay": "off"}, {"breaker_pause": None}],
)  # fmt: skip
def test_a_limit_that_allows_nothing_or_is_missing_is_rejected(given):
    [(name, value)] = given.items()

    with pytest.raises(DefinitionError, match=f"The default {name} has an invalid value"):
        Runtime(say, defaults=given)
    with pytest.raises(DefinitionError, match=f"The default {name} has an invalid value"):
        Defaults(**{name: value})


@pytest.mark.parametrize("given", [5, "tool_timeout", [("tool_timeout", 5)], []])
def test_defaults_must_be_a_mapping(given):
    with pytest.raises(DefinitionError, match=r"defaults must be a mapping, got .*\. Fix: use a mapping"):
        Runtime(say, defaults=given)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(DefinitionError, match=r"There is no default 'max_ouput'\. Fix: use max_output\."):
        Runtime(say, defaults={"max_ouput": 5})
    with pytest.raises(DefinitionError, match=r"There is no default 3\."):
        Runtime(say, defaults={3: 5})
