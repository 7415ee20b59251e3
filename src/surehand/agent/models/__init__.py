"""Models that answer an agent's requests, each behind one streaming method.

Programs reach this package as `surehand.models`.
"""

from surehand.agent.models.base import (
    AnswerRestarted,
    Model,
    ModelAnswer,
    ModelCall,
    ModelError,
    ModelRequest,
    TextChunk,
    ToolInputChunk,
    Usage,
)
from surehand.agent.models.choose import anthropic, openai, responses
from surehand.agent.models.errors import ContextTooLong
from surehand.agent.models.usage import Price

__all__ = [
    "AnswerRestarted",
    "ContextTooLong",
    "Model",
    "ModelAnswer",
    "ModelCall",
    "ModelError",
    "ModelRequest",
    "Price",
    "TextChunk",
    "ToolInputChunk",
    "Usage",
    "anthropic",
    "openai",
    "responses",
]
