"""The shell: commands in a sandbox, to their end (`bash`) or in the background (`bash_output`, `bash_stop`)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.shell.background import BackgroundCommand, BackgroundCommands, BackgroundLimits, owner_key
from surehand.builtin.shell.command import CommandResult, OutputProgress, describe_exit_code, run_command
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError, InvalidArguments, TimedOut, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.signature import use
from surehand.core.tool import Tool
from surehand.sandbox.bubblewrap import refuse_unsafe_path
from surehand.sandbox.child_process import STOP_GRACE_SECONDS, ChildProcess
from surehand.sandbox.sandbox import Sandbox, Unprotected
from surehand.workspace.workspace import DirectoryLike, Workspace

MAX_TIMEOUT_MILLISECONDS, DEFAULT_TIMEOUT_MILLISECONDS = 600_000, 120_000
"TimeoutMillisecondsds."
_STOP_ALLOWANCE_SECONDS = 5.0
"""Seconds beyond a command's own, in which it is stopped and its output told; then the call's own limit counts."""
_MAX_COMMAND_BYTES = 120_000
"""Bytes of the longest command that the kernel takes as one argument."""

TimeoutMilliseconds = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_TIMEOUT_MILLISECONDS,
        description=f"Milliseconds to let it run, {MAX_TIMEOUT_MILLISECONDS} at most.",
    ),
]
_BACKGROUND_COMMANDS = use(BackgroundCommands)
BackgroundCommandId = Annotated[str, Field(description="What bash answered with.", examples=["bg_3f2a81c09d4e"])]


def shell(
    workspace: DirectoryLike | Workspace | None = None,
    *,
    sandbox: Sandbox | Unprotected | None = None,
    background: int = 8,
    life: float | str = "10m",
    max_unread: int | str = "1MiB",
    max_output: int | str = "10MiB",
    grace: float = STOP_GRACE_SECONDS,
) -> list[Tool[..., Any]]:
    """`bash`, `bash_output` and `bash_stop`: shell commands in a workspace.

    Commands run in a `Sandbox`: no network, the system and the workspace's folders, and nothing else of the machine.
    Where no sandbox can be started, `bash` is unavailable. `sandbox=UNPROTECTED` runs commands without one.

    Args:
        sandbox: `Sandbox(network=True, ...)` where commands need more.
        background: commands that one session may have in the background at once.
        life: how long a command may run in the background.
        kept: bytes of its unread output that are kept.
        flood: bytes after which a command that is waited for is stopped.
        grace: seconds that a command has to end by itself when it is asked to.
    """
    place = Workspace.coerce(workspace)
    jail = _validate_sandbox(sandbox, place)
    most, bounds = _parse_limits(background, life, max_unread, max_output, grace)
    network = isinstance(jail, Unprotected) or jail.network

    def lifespan() -> BackgroundCommands:
        return BackgroundCommands(bounds)

    async def start(command: str, workdir: str | None) -> ChildProcess:
        _validate_command(command)
        cwd = _working_folder(place, workdir)
        return await ChildProcess.start(
            [_SHELL_PATH, "-c", "--", command], cwd=cwd, sandbox=jail, folders=place.sandbox_mounts()
        )

    @tool(
        description=f"{_BASH_DESCRIPTION}{'' if network else ' There is no network.'}",
        effects={"execute"},
        optional_effects={"network"} if network else set[str](),
        category="system",
        visible=False,
        timeout=lambda args: args["timeout"] / 1000 + grace + _STOP_ALLOWANCE_SECONDS,
        confirm_message=lambda args, ctx: f"Run this command?\n{_render_command(args['command'])}",
        lifespan=lifespan,
        examples=[{"command": "pytest -q", "description": "Run the tests", "timeout": 300_000}],
    )
    async def bash(
        command: Annotated[
            str, Field(min_length=1, max_length=_MAX_COMMAND_BYTES, description="What to run, as one would type it.")
        ],
        ctx: Context,
        description: Annotated[str, Field(description="What it does, in five to ten words.")] = "",
        timeout: TimeoutMilliseconds = DEFAULT_TIMEOUT_MILLISECONDS,
        workdir: Annotated[
            str | None, Field(description="The folder to run it in; the workspace's root if left out.")
        ] = None,
        background: Annotated[bool, Field(description="Answer at once, and go on running.")] = False,
        jobs: BackgroundCommands | None = _BACKGROUND_COMMANDS,
    ) -> Done:
        if background:
            return await _start_in_background(jobs, command, ctx, lambda: start(command, workdir))
        child = await start(command, workdir)
        result = await run_command(
            child, timeout=timeout / 1000, max_output_bytes=most, grace=grace, on_output=OutputProgress(ctx.report)
        )
        return _render_result(result, command, description, timeout, most, child.exceeded_process_limit)

    @tool(
        effects={"read"},
        category="system",
        visible=False,
        repeatable=False,
        timeout=lambda args: args["wait"] / 1000 + _STOP_ALLOWANCE_SECONDS,
        lifespan=lifespan,
        requires=("bash",),
    )
    async def bash_output(
        id: BackgroundCommandId,
        ctx: Context,
        wait: Annotated[
            int, Field(ge=0, le=MAX_TIMEOUT_MILLISECONDS, description="TimeoutMilliseconds to wait for its end.")
        ] = 0,
        jobs: BackgroundCommands | None = _BACKGROUND_COMMANDS,
    ) -> Done:
        """What a background command printed since the last look, and whether it still runs."""
        job = _require_background(jobs).find(id, owner_key(ctx))
        await job.wait_for_end(wait / 1000)
        return _render_new_output(job)

    @tool(effects={"execute"}, category="system", visible=False, lifespan=lifespan, requires=("bash",))
    async def bash_stop(
        id: BackgroundCommandId, ctx: Context, jobs: BackgroundCommands | None = _BACKGROUND_COMMANDS
    ) -> Done:
        """Stop a background command and all that it started, and get the rest of its output."""
        job = _require_background(jobs).find(id, owner_key(ctx))
        job.was_stopped |= job.is_running
        await job.stop()
        return _render_new_output(job)

    return [bash, bash_output, bash_stop]


_BASH_DESCRIPTION = "Run a shell command in the workspace. Each call is a new shell; run servers with background=true."
_SHELL_PATH = shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"


def _validate_sandbox(sandbox: Any, workspace: Workspace) -> Sandbox | Unprotected:
    if sandbox is not None and not isinstance(sandbox, (Sandbox, Unprotected)):
        raise DefinitionError(
            f"{sandbox!r} is no sandbox.", fix="give Sandbox(...), or UNPROTECTED to run commands without one."
        )
    if not isinstance(sandbox, Unprotected):
        for folder in workspace.roots:
            refuse_unsafe_path(folder.path)
    return Sandbox() if sandbox is None else sandbox


def _parse_limits(
    count: int, life: float | str, max_unread: int | str, max_output: int | str, grace: float
) -> tuple[int, BackgroundLimits]:
    try:
        most, bounds = (
            parse_size(max_output),
            BackgroundLimits(count, parse_duration(life), parse_size(max_unread), float(grace)),
        )
        if count < 0 or grace < 0 or min(most, bounds.max_unread_bytes, bounds.timeout_seconds or 1) <= 0:
            raise ValueError("A limit is below zero.")
    except (ValueError, TypeError, AttributeError) as error:
        raise DefinitionError(str(error), fix="give life='10m', kept='1MiB', flood='10MiB', grace=0.5.") from None
    return most, bounds


def _render_command(command: str) -> str:
    """All of a command, for the person who is asked: whatever could hide a part of it is written out."""
    return "\n".join(escape_line(line) for line in command.split("\n"))


def _validate_command(command: str) -> None:
    try:
        length = len(command.encode())
    except UnicodeEncodeError:
        raise InvalidArguments("The command holds characters that no command can have. Leave them out.") from None
    if "\0" in command:
        raise InvalidArguments("The command holds a NUL character. Leave it out, or write it as '\\0'.")
    if length > _MAX_COMMAND_BYTES:
        raise InvalidArguments(f"The command is {length:,} bytes long. Write it to a file, and run that.")


def _working_folder(workspace: Workspace, workdir: str | None) -> Path:
    if workdir is None:
        return workspace.root
    spot = workspace.resolve(workdir)
    if not stat.S_ISDIR(spot.stat().st_mode):
        raise InvalidArguments(f"{spot.display_path} is no folder. Give one as workdir.")
    return Path(os.path.join(spot.root.path, *spot.parts))


def _render_result(
    result: CommandResult,
    command: str,
    description: str,
    timeout: int,
    max_output_bytes: int,
    exceeded_process_limit: bool,
) -> Done:
    problem = _command_error(result, timeout, max_output_bytes, exceeded_process_limit)
    metadata: Mapping[str, Any] = {
        "command": command,
        "exitCode": result.exit_code if result.ending == "ended" else None,
        "truncated": result.is_truncated,
        "durationMs": round(result.duration_seconds * 1000),
        "error": None if problem is None else str(problem).partition("\n")[0],
    }
    if problem is None:
        return Done(result.output or "(no output)", title=escape_line(description or command, 80), metadata=metadata)
    problem.data = metadata
    raise problem


def _command_error(
    result: CommandResult, timeout: int, max_output_bytes: int, exceeded_process_limit: bool
) -> ToolError | None:
    """What to raise, the reason first and then the output."""
    output = f"\n{result.output or '(no output)'}"
    if result.ending == "timed out":
        took = f"{timeout / 1000:g} s" if timeout >= 1000 else f"{timeout} ms (`timeout` is in milliseconds)"
        return TimedOut(f"timed out after {took}, and was stopped{output}")
    if result.ending == "flooded":
        problem = f"stopped after printing {max_output_bytes:,} bytes; filter its output, or send it to a file"
        return ToolError(f"{problem}{output}", code="too_large")
    if exceeded_process_limit:
        return ToolError(f"stopped because it started too many processes{output}", code="limit_exceeded")
    return ToolError(f"{describe_exit_code(result.exit_code)}{output}") if result.exit_code else None


async def _start_in_background(
    background: BackgroundCommands | None, command: str, ctx: Context, start_child: Any
) -> Done:
    job = await _require_background(background).start(command, owner_key(ctx), start_child)
    told = f"Started as {job.id}. Look at it with bash_output, end it with bash_stop."
    return Done(
        {"id": job.id, "state": job.state_text},
        content=[Text(told)],
        title=escape_line(command, 80),
        metadata={"id": job.id},
    )


def _require_background(background: BackgroundCommands | None) -> BackgroundCommands:
    if background is None:
        raise Unavailable("Commands run in the background of a runtime only: use `await runtime.call(...)`.")
    return background


def _render_new_output(command: BackgroundCommand) -> Done:
    output, truncated = command.take_new_output()
    code = None if command.is_running else command.exit_code
    data = {
        "id": command.id,
        "state": command.state_text,
        "running": command.is_running,
        "exitCode": code,
        "output": output,
    }
    text = f"{command.id} {command.state_text}\n{output or '(no new output)'}"
    return Done(
        data,
        content=[Text(text)],
        title=escape_line(command.command, 80),
        metadata={"id": command.id, "truncated": truncated},
    )
