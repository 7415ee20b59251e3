"""Finding the agent that `surehand chat` and `surehand run` are about."""

from __future__ import annotations

from collections.abc import Mapping

from surehand.agent.agent import Agent
from surehand.cli.exit_codes import EXIT_NOT_FOUND, EXIT_USAGE, CommandExit
from surehand.core.names import nearest_names

NO_AGENTS_MESSAGE = (
    'No agents are configured. Write `agents: {helper: {model: "openai:gpt-5-mini"}}` into a surehand.yaml, '
    "or name a Python file with an Agent: --tools agents.py."
)


def choose_agent(agents: Mapping[str, Agent], name: str | None) -> Agent:
    """The agent of this name, or the only one; ends the command if there is none."""
    if not agents:
        raise CommandExit(EXIT_USAGE, NO_AGENTS_MESSAGE)
    known = ", ".join(agents)
    if name is None:
        if len(agents) > 1:
            raise CommandExit(EXIT_USAGE, f"There are several agents. Name one of them: {known}.")
        return next(iter(agents.values()))
    if name not in agents:
        near = nearest_names(name, agents, 1)
        suggestion = f" Did you mean {near[0]}?" if near else ""
        raise CommandExit(EXIT_NOT_FOUND, f"There is no agent {name!r}.{suggestion} Agents: {known}.")
    return agents[name]
