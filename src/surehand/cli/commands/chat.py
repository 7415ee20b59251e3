"""`surehand chat`: talk to an agent at the terminal."""

from __future__ import annotations

import sys

import click

from surehand.cli.chat_session import ChatSession
from surehand.cli.chosen_agent import NO_AGENTS_MESSAGE, choose_agent
from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.formatting import is_terminal
from surehand.cli.lifecycle import run_coroutine, start_runtime
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.runtime import Runtime


@click.command("chat")
@click.argument("agent", required=False)
@click.option("--user", metavar="ID", help="The user of the conversation.")
@click.option("--session", metavar="ID", help="The session of the conversation.")
@with_tools_and_store
def command(options: RuntimeOptions, agent: str | None, user: str | None, session: str | None) -> None:
    """Talk to AGENT, or to the only one there is.

    What you type during a turn steers it. Ctrl-C cancels the turn; Ctrl-D or /exit ends the conversation.
    """
    if not is_terminal(sys.stdin) or not is_terminal(sys.stdout):
        raise CommandExit(EXIT_USAGE, "`surehand chat` needs a terminal. In a pipe, use `surehand run AGENT PROMPT`.")
    sessions: list[ChatSession] = []

    async def approver(pending_call: PendingCall) -> Approval | None:
        return await sessions[0].approver(pending_call) if sessions else None

    runtime, agents = options.build_runtime_with_agents(approver, nothing_configured=NO_AGENTS_MESSAGE)
    sessions.append(ChatSession(choose_agent(agents, agent), user=user, session=session))
    run_coroutine(_talk(runtime, sessions[0]))


async def _talk(runtime: Runtime, session: ChatSession) -> None:
    async with start_runtime(runtime):
        await session.talk(runtime)
