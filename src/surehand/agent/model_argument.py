"""What developers may give as a model: its name, such as `"openai:gpt-5"`, or an object."""

from __future__ import annotations

from typing import Any

from surehand.agent.models.base import Model
from surehand.core.errors import DefinitionError


def to_model(model: Any) -> Model:
    """The model of `"provider:name"`, or the given model itself."""
    if isinstance(model, str):
        from surehand.agent.models.choose import choose_model  # loads the models of the official SDKs

        return choose_model(model)
    if not isinstance(model, Model):
        raise DefinitionError(
            f"model={model!r} is not a model.", fix='give "provider:name", or an object with `stream`.'
        )
    return model
