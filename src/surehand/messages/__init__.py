"""Messages of model APIs: the tool calls in a model's answer, and the messages that send their outcomes back.

For programs that keep their own loop, and for the agent's models. Each module has two functions, `calls` and `results`;
they take and give plain dictionaries, and read the objects of the official SDKs too.
"""

from surehand.messages import anthropic as anthropic
from surehand.messages import gemini as gemini
from surehand.messages import openai as openai
from surehand.messages import responses as responses
