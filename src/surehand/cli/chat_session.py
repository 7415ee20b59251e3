"""ChatSession: a conversation with an agent at the terminal, turn by turn."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace

from surehand.agent.agent import Agent
from surehand.agent.models.base import Message
from surehand.agent.run import Run
from surehand.agent.run_family import RunFamily
from surehand.cli.answers import login_name
from surehand.cli.line_reader import TerminalLineReader
from surehand.cli.prompt import ask_for_answer, ask_for_approval, print_notice
from surehand.cli.turn_display import TurnDisplay
from surehand.core.events import Event, RunEnded, RunStarted
from surehand.core.ids import new_id
from surehand.core.outcome import Failed
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.runtime import Runtime

PROMPT = "you> "
END_WORDS = ("/exit", "/quit")


class ChatSession:
    """Turns of one conversation. What is typed during a turn steers it; Ctrl-C cancels the turn."""

    def __init__(self, agent: Agent, *, user: str | None, session: str | None) -> None:
        self._agent = agent
        self._principal = {"user": user, "session": session}
        self._messages: list[Message] = []
        """The conversation so far, which the next turn continues."""
        self._typed_ahead: list[str] = []
        self._run_id: str | None = None
        self._family = RunFamily()
        """The runs of this turn: the agent's own, and those of the agents that it calls."""
        self._turn: asyncio.Task[Run] | None = None
        self._steering: set[asyncio.Task[None]] = set()
        self._runtime: Runtime | None = None
        self._reader: TerminalLineReader | None = None

    async def approver(self, pending_call: PendingCall) -> Approval | None:
        """The person's decision about a call of this turn."""
        if self._reader is None or self._runtime is None or pending_call.turn not in self._family.run_ids:
            return None
        catalogue, policy = self._runtime.catalogue, self._runtime.policy
        read = self._reader.ask_from_thread
        approval = await asyncio.to_thread(ask_for_approval, pending_call, catalogue, policy, read)
        return None if approval is None else replace(approval, by=login_name())

    async def talk(self, runtime: Runtime) -> None:
        """Take turns until the person ends the conversation."""
        self._runtime = runtime
        unsubscribe = runtime.listen(self._family.includes)
        self._reader = TerminalLineReader(self._take_line)
        self._reader.start()
        print_notice(
            f"Talking to {self._agent.name} ({self._agent.model.name}). Ctrl-C cancels a turn, Ctrl-D ends.", "dim"
        )
        try:
            with self._handle_interrupts():
                while (text := await self._next_text()) is not None:
                    await self._take_turn(text)
        finally:
            unsubscribe()
            self._reader.close()

    async def _next_text(self) -> str | None:
        """What the person says next; None at the end of the conversation."""
        assert self._reader is not None
        while True:
            line = self._typed_ahead.pop(0) if self._typed_ahead else await self._reader.ask(PROMPT)
            if line is None or line.strip() in END_WORDS:
                return None
            if line.strip():
                return line

    def _take_line(self, line: str) -> None:
        """Steer the turn with a line that was typed during it; after it, the line begins the next turn."""
        assert self._reader is not None
        if self._turn is None or self._turn.done() or self._run_id is None:
            self._typed_ahead.append(line)
            return
        self._reader.listen()
        if line.strip():
            task = asyncio.create_task(self._steer(self._run_id, line))
            self._steering.add(task)
            task.add_done_callback(self._steering.discard)

    async def _steer(self, run_id: str, line: str) -> None:
        try:
            await self._agent.steer(run_id, line, runtime=self._runtime)
        except (ValueError, LookupError):  # the run has ended meanwhile
            self._typed_ahead.append(line)
        else:
            print_notice("(told the agent)", "dim")

    @contextmanager
    def _handle_interrupts(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupt(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.cancel()
        else:
            print_notice("\nNothing runs. Ctrl-D ends the conversation.", "dim")

    async def _take_turn(self, text: str) -> None:
        said: Message = {"role": "user", "content": text}
        display = TurnDisplay()
        prompt = [*self._messages, said]
        run_id = new_id()
        self._turn = asyncio.create_task(self._run_turn(prompt, run_id, display))
        await asyncio.wait({self._turn})
        display.end_line()
        self._run_id = None
        self._family.run_ids = set()
        if self._turn.cancelled():
            await self._cancel_run(run_id)
            print_notice("cancelled: the turn was ended, and what it had done stays.", "yellow")
            self._messages = [*prompt, _interrupted_message(display)]
            return
        run = self._turn.result()
        self._messages = [each for each in run.messages if each["role"] != "system"]
        if run.status in ("failed", "stopped"):
            print_notice(f"{run.status}: {run.reason}", "red" if run.status == "failed" else "yellow")
        elif run.status == "waiting":
            print_notice(f"waiting: {run.reason}", "yellow")

    async def _cancel_run(self, run_id: str) -> None:
        """Stop the run of a cancelled turn for good, with what it waits for."""
        with suppress(LookupError):  # the turn was cancelled before the run had begun
            await self._agent.cancel(run_id, reason="The user cancelled the turn.", runtime=self._runtime)

    async def _run_turn(self, prompt: list[Message], run_id: str, display: TurnDisplay) -> Run:
        """Run the agent on the conversation, and ask the person for what it waits for."""
        assert self._runtime is not None
        while True:
            # The first round starts the run; with the id of a run that exists, it goes on, and its events are shown.
            stream = self._agent.stream(prompt, runtime=self._runtime, run_id=run_id, **self._principal)
            run = await self._follow(stream, display)
            if run.status != "waiting" or not await self._answer_waits(run):
                return run

    async def _follow(self, events: AsyncGenerator[Event], display: TurnDisplay) -> Run:
        assert self._reader is not None
        self._reader.listen()
        run: Run | None = None
        async with aclosing(events):
            async for event in events:
                display(event)
                if isinstance(event, RunStarted) and event.parent_run is None:
                    self._run_id = event.run_id
                    self._family.run_ids = {event.run_id}
                elif isinstance(event, RunEnded):
                    run = event.run
        assert run is not None  # the last event of every stream
        return run

    async def _answer_waits(self, run: Run) -> bool:
        """Ask the person about each wait of a run; whether one of them was answered."""
        answers = [await self._answer_wait(wait) for wait in run.waiting]
        return any(answers)

    async def _answer_wait(self, wait: PendingCall) -> bool:
        assert self._reader is not None
        assert self._runtime is not None
        runtime, read = self._runtime, self._reader.ask_from_thread
        if wait.waiting_for == "approval":
            approval = await asyncio.to_thread(ask_for_approval, wait, runtime.catalogue, runtime.policy, read)
            if approval is None:
                return False
            if approval.allow:
                outcome = await runtime.approve(wait.call_id, arguments=approval.arguments, by=login_name())
            else:
                outcome = await runtime.reject(wait.call_id, by=login_name())
        else:
            answer = await asyncio.to_thread(ask_for_answer, wait, runtime.catalogue, read)
            if answer is None:
                return False
            outcome = await runtime.settle(wait.call_id, answer[0], round=wait.round)
        if isinstance(outcome, Failed) and not outcome.executed:
            print_notice(outcome.message, "red")
        return True


def _interrupted_message(display: TurnDisplay) -> Message:
    """What the model is told about a turn that was cancelled: its text, and the calls that had ended."""
    lines = [display.text.strip(), "(The user cancelled this turn.)"]
    if display.ended_calls:
        lines += ["Calls that had ended:", *display.ended_calls]
    return {"role": "assistant", "content": "\n".join(filter(None, lines))}
