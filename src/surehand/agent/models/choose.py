"""Choosing a model: `"provider:name"` becomes a model over the provider's SDK, with retries.

Programs reach the functions of this module as `surehand.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal, TypedDict, Unpack

from surehand.agent.models.anthropic_messages import AnthropicModel
from surehand.agent.models.base import Model
from surehand.agent.models.chat_completions import ChatCompletionsModel
from surehand.agent.models.json_mode import JsonModeModel
from surehand.agent.models.paused_turns import UnpausedModel
from surehand.agent.models.responses_api import ResponsesModel
from surehand.agent.models.retries import RetryingModel
from surehand.agent.models.sdk_model import ModelSettings, ReasoningEffort, SdkModel
from surehand.agent.models.usage import Price
from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command
from surehand.core.names import nearest_names

_PROVIDERS: dict[str, type[SdkModel]] = {
    "openai": ChatCompletionsModel,
    "responses": ResponsesModel,
    "anthropic": AnthropicModel,
}
MODEL_PROVIDERS = tuple(_PROVIDERS)
_ACCESS_VARIABLES = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "responses": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
}


def access_variables(model: str) -> tuple[str, ...]:
    """The variables of the SDK of a `provider:name`, of which the key or the address says that it can be used."""
    return _ACCESS_VARIABLES.get(model.partition(":")[0], ())


class ModelOptions(TypedDict, total=False):
    """How a model is reached and asked; everything has a default."""

    base_url: str | None
    """The address of a compatible server; otherwise the SDK's variable, or the provider's own address."""
    api_key: str | None
    """Otherwise the SDK's variable, such as `OPENAI_API_KEY`; a server of one's own needs none."""
    mode: Literal["tools", "json"]
    """`json` is the JSON-schema mode, for models without native tools."""
    client: Any
    """An async client of the SDK to use, for example `AsyncAzureOpenAI(...)`; the program closes it."""
    idle_timeout: float
    """Seconds in which the server sends nothing of an answer, after which it has failed: 60.

    Keep-alive events do not count as an answer.
    """
    temperature: float | None
    max_tokens: int | None
    """The most tokens of one answer."""
    reasoning: ReasoningEffort | None
    """How much the model reasons: `minimal`, `low`, `medium` or `high`."""
    price: Price | None
    """What the model costs; without it the cost of a request is unknown (None)."""
    options: Mapping[str, Any]
    """Further fields of the request, as the server's API names them."""


def openai(name: str, **options: Unpack[ModelOptions]) -> Model:
    """A model behind OpenAI's Chat Completions API, which most other servers speak too: give their `base_url`."""
    return choose_model(f"openai:{name}", **options)


def responses(name: str, **options: Unpack[ModelOptions]) -> Model:
    """A model behind OpenAI's Responses API, or the Open Responses of another server."""
    return choose_model(f"responses:{name}", **options)


def anthropic(name: str, **options: Unpack[ModelOptions]) -> Model:
    """A model behind Anthropic's Messages API."""
    return choose_model(f"anthropic:{name}", **options)


def choose_model(model: str | Model, **options: Unpack[ModelOptions]) -> Model:
    """The model that `"provider:name"` names; a model is returned as it is."""
    if not isinstance(model, str):
        return model
    provider, name = _split_name(model)
    settings: dict[str, Any] = dict(options)
    mode = settings.pop("mode", "tools")
    if mode not in ("tools", "json"):
        raise DefinitionError(f"`mode` of a model must be 'tools' or 'json', got {mode!r}.")
    model_class = _PROVIDERS[provider]
    if find_spec(model_class.sdk_name) is None:
        command = install_command(model_class.sdk_name)
        raise DefinitionError(f"The model {model!r} needs the SDK {model_class.sdk_name}: {command}.")
    chosen: Model = model_class(name, ModelSettings(**settings))
    if provider == "anthropic":
        chosen = UnpausedModel(chosen)
    if mode == "json":
        chosen = JsonModeModel(chosen)
    return RetryingModel(chosen)


def _split_name(model: str) -> tuple[str, str]:
    provider, separator, name = model.partition(":")
    known = ", ".join(f"'{each}:...'" for each in MODEL_PROVIDERS)
    if not separator or not name.strip():
        raise DefinitionError(f"A model is written 'provider:name', got {model!r}. Providers: {known}.")
    if provider not in _PROVIDERS:
        near = nearest_names(provider, MODEL_PROVIDERS, 1)
        suggestion = f" Did you mean '{near[0]}:{name}'?" if near else ""
        raise DefinitionError(
            f"There is no provider {provider!r} of models.{suggestion} Providers: {known}. "
            "Other servers speak one of these APIs: give their `base_url=`."
        )
    return provider, name.strip()
