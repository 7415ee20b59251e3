"""Models: one file for each API that answers an agent's requests, behind one streaming method.

Programs reach this package as `surehand.models`.
"""

from surehand.agent.models.base import AnswerRestarted as AnswerRestarted
from surehand.agent.models.base import Model as Model
from surehand.agent.models.base import ModelAnswer as ModelAnswer
from surehand.agent.models.base import ModelCall as ModelCall
from surehand.agent.models.base import ModelError as ModelError
from surehand.agent.models.base import ModelRequest as ModelRequest
from surehand.agent.models.base import TextChunk as TextChunk
from surehand.agent.models.base import ToolInputChunk as ToolInputChunk
from surehand.agent.models.base import Usage as Usage
from surehand.agent.models.choose import anthropic as anthropic
from surehand.agent.models.choose import openai as openai
from surehand.agent.models.choose import responses as responses
from surehand.agent.models.errors import ContextTooLong as ContextTooLong
from surehand.agent.models.usage import Price as Price
