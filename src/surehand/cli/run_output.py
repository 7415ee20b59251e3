"""Runs of agents for a program, as JSON, and for a person: how a run ended, how to answer it and how to go on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from surehand.agent.run import Run
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_PENDING
from surehand.cli.options import RuntimeOptions
from surehand.cli.outcome_output import event_to_json, question_arguments
from surehand.core.events import Event, RunEnded
from surehand.runtime.pending.pending_call import PendingCall


def run_exit_code(run: Run) -> int:
    """The exit code for the end of a run."""
    return {"done": EXIT_DONE, "waiting": EXIT_PENDING}.get(run.status, EXIT_FAILED)


def run_to_json(run: Run, options: RuntimeOptions | None) -> dict[str, Any]:
    """A run for a program; one that waits has the commands that answer it and go on with it.

    Args:
        options: the options to repeat in commands; None if the run ends with this process.
    """
    record: dict[str, Any] = {
        "run_id": run.id,
        "agent": run.agent,
        "status": run.status,
        "text": run.text,
        "output": run.output,
        "reason": run.reason or None,
        "usage": asdict(run.usage),
        "waiting": [_wait_to_json(wait, options) for wait in run.waiting],
    }
    if run.status == "waiting" and options is not None:
        record["resume"] = resume_command(run, options)
    return record


def _wait_to_json(wait: PendingCall, options: RuntimeOptions | None) -> dict[str, Any]:
    return {
        "call_id": wait.call_id,
        "tool": wait.tool,
        "arguments": wait.arguments,
        "waiting_for": wait.waiting_for,
        "path": wait.path,
        "message": wait.message,
        "request": wait.request,
        "answer": answer_commands(wait, options) if options is not None else [],
    }


def answer_commands(wait: PendingCall, options: RuntimeOptions) -> list[str]:
    """The commands with which a person can answer a wait."""
    words = question_arguments(wait.call_id, wait.round)
    if wait.waiting_for == "approval":
        return [options.follow_up_command(verb, *words) for verb in ("approve", "reject")]
    return [f"{options.follow_up_command('settle', *words)} ANSWER"]


def resume_command(run: Run, options: RuntimeOptions) -> str:
    """The command that goes on with a run."""
    return options.follow_up_command("run", run.agent, "--resume", run.id)


def waiting_hint(run: Run, options: RuntimeOptions) -> str:
    """How a person answers what a run waits for, and goes on with it."""
    lines = ["Answer it with:"]
    lines += [f"  {command}" for wait in run.waiting for command in answer_commands(wait, options)]
    return "\n".join([*lines, "Then go on with:", f"  {resume_command(run, options)}"])


def run_event_to_json(event: Event) -> dict[str, Any]:
    """An event of a run for a program. The run follows as a line of its own, so `RunEnded` has its status only."""
    if isinstance(event, RunEnded):
        return {"event": "RunEnded", "run_id": event.run_id, "status": event.run.status, "at": event.at}
    return event_to_json(event)
