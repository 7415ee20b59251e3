"""Choosing a model: `"provider:name"` becomes a model over the provider's SDK, with retries.

Programs reach the functions of this module as `surehand.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

from surehand.agent.models.anthropic_messages import AnthropicModel
from surehand.agent.models.base import Model
from surehand.agent.models.chat_completions import ChatCompletionsModel
from surehand.agent.models.json_mode import JsonModeModel
from surehand.agent.models.responses_api import ResponsesModel
from surehand.agent.models.retries import RetryingModel
from surehand.agent.models.sdk_model import IDLE_TIMEOUT_SECONDS, ModelSettings, ReasoningEffort, SdkModel
from surehand.agent.models.usage import Price as Price
from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command
from surehand.core.names import nearest_names

Mode = Literal["tools", "json"]

_PROVIDERS: dict[str, type[SdkModel]] = {
    "openai": ChatCompletionsModel,
    "responses": ResponsesModel,
    "anthropic": AnthropicModel,
}
PROVIDERS = tuple(_PROVIDERS)


def choose_model(
    model: str | Model,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    mode: Mode = "tools",
    client: Any = None,
    idle_timeout: float = IDLE_TIMEOUT_SECONDS,
    temperature: float | None = None,
    max_tokens: int | None = None,
    reasoning: ReasoningEffort | None = None,
    price: Price | None = None,
    options: Mapping[str, Any] | None = None,
) -> Model:
    """The model that `"provider:name"` names; a model is returned as it is.

    Args:
        base_url: The address of a compatible server; otherwise the SDK's variable or the provider's own address.
        api_key: Otherwise the SDK's variable, such as `OPENAI_API_KEY`.
        mode: `json` is the JSON-schema mode, for models without native tools.
        client: An async client of the SDK to use, for example `AsyncAzureOpenAI(...)`; the program closes it.
        idle_timeout: Seconds without a byte of the server, after which a request has failed.
        max_tokens: The most tokens of one answer.
        price: What the model costs; without it the cost of a request is unknown (None).
        options: Further fields of the request, as the server's API names them.
    """
    if not isinstance(model, str):
        return model
    provider, name = split_name(model)
    if mode not in ("tools", "json"):
        raise DefinitionError(f"`mode` of a model must be 'tools' or 'json', got {mode!r}.")
    model_class = _PROVIDERS[provider]
    if find_spec(model_class.sdk_name) is None:
        extra = install_command(model_class.sdk_name)
        raise DefinitionError(f"The model {model!r} needs the SDK {model_class.sdk_name}: {extra}.")
    settings = ModelSettings(
        base_url=base_url,
        api_key=api_key,
        client=client,
        idle_timeout=idle_timeout,
        temperature=temperature,
        max_tokens=max_tokens,
        reasoning=reasoning,
        price=price,
        options=dict(options or {}),
    )
    chosen: Model = model_class(name, settings)
    if mode == "json":
        chosen = JsonModeModel(chosen)
    return RetryingModel(chosen)


def split_name(model: str) -> tuple[str, str]:
    """The provider and the name of `"provider:name"`; a `DefinitionError` if it has none, or an unknown one."""
    provider, separator, name = model.partition(":")
    known = ", ".join(f"'{each}:...'" for each in PROVIDERS)
    if not separator or not name.strip():
        raise DefinitionError(f"A model is written 'provider:name', got {model!r}. Providers: {known}.")
    if provider not in _PROVIDERS:
        near = nearest_names(provider, PROVIDERS, 1)
        suggestion = f" Did you mean '{near[0]}:{name}'?" if near else ""
        raise DefinitionError(
            f"There is no provider {provider!r} of models.{suggestion} Providers: {known}. "
            "Other servers speak one of these APIs: give their `base_url=`."
        )
    return provider, name.strip()
