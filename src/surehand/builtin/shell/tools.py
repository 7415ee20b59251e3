"""The factory `shell` and its tools: `bash` runs a command, `bash_output` and `bash_stop` follow it in the background.

Commands run as child processes in a sandbox that shows the folders of a workspace.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.limited_field import limited_field
from surehand.builtin.shell.background import BackgroundCommand, BackgroundCommands, BackgroundLimits, owner_key
from surehand.builtin.shell.command import (
    MAX_SHOWN_BYTES,
    CommandResult,
    OutputProgress,
    describe_exit_code,
    run_command,
)
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
from surehand.workspace.refused_names import RefusedNames
from surehand.workspace.workspace import DirectoryLike, Workspace

MAX_TIMEOUT_MILLISECONDS = 600_000
DEFAULT_TIMEOUT_MILLISECONDS = 120_000
_STOP_ALLOWANCE_SECONDS = 5.0
"""Added to a command's timeout for the deadline of the call: time to stop the command and return its output."""
_MAX_COMMAND_BYTES = 120_000
"""Longest command. Linux limits a single argument of a program to 128 KiB (MAX_ARG_STRLEN)."""
_MAX_TITLE_LENGTH = 80
_WORD_SEPARATORS = re.compile(r"""[\s'"`;&|<>(){}=,:@$]+""")
"""What stands between the words of a shell command, quotes and assignments included."""

TimeoutMilliseconds = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_TIMEOUT_MILLISECONDS,
        description=f"Milliseconds to let it run, {MAX_TIMEOUT_MILLISECONDS} at most.",
    ),
]
_BACKGROUND_COMMANDS = use(BackgroundCommands)
BackgroundCommandId = Annotated[str, Field(description="What bash answered with.")]


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
    """The tools `bash`, `bash_output` and `bash_stop`, which run shell commands in a workspace.

    Commands run in a `Sandbox`: without network, they see the system's programs and the folders of the workspace, and
    nothing else of the machine. Where no sandbox can be started, `bash` is unavailable. `sandbox=UNPROTECTED` runs
    commands without a sandbox.

    Args:
        sandbox: `Sandbox(network=True, ...)` where commands need more.
        background: commands that one session may run in the background at once.
        life: how long a command may run in the background.
        max_unread: bytes of unread output of a background command that are kept.
        max_output: bytes of output after which a command in the foreground is stopped.
        grace: seconds between asking a command to end and killing it.
    """
    workspace = Workspace.coerce(workspace)
    sandbox = _validate_sandbox(sandbox, workspace)
    max_output_bytes, limits = _parse_limits(background, life, max_unread, max_output, grace)
    has_network = isinstance(sandbox, Unprotected) or sandbox.network

    def lifespan() -> BackgroundCommands:
        return BackgroundCommands(limits)

    async def start(command: str, workdir: str | None) -> tuple[ChildProcess, RefusedNames]:
        _validate_command(command)
        refused_names = workspace.watch_refused_names()
        child = await ChildProcess.start(
            [_SHELL_PATH, "-c", _ONE_PIPE_SCRIPT, _SHELL_PATH, command],
            cwd=_working_folder(workspace, workdir),
            sandbox=sandbox,
            folders=workspace.sandbox_mounts(),
            must_end=None if isinstance(sandbox, Unprotected) else refused_names.rename_new_paths,
        )
        return child, refused_names

    async def check_command(args: Mapping[str, Any]) -> None:
        _validate_command(args["command"])
        await asyncio.to_thread(_working_folder, workspace, args["workdir"])

    def check_id(args: Mapping[str, Any], ctx: Context) -> None:
        ctx.use(BackgroundCommands).find(args["id"], owner_key(ctx))

    @tool(
        description=f"{_BASH_DESCRIPTION}{'' if has_network else ' There is no network.'}",
        effects={"execute", "network"} if has_network else {"execute"},
        category="system",
        visible=False,
        timeout=lambda args: args["timeout"] / 1000 + grace + _STOP_ALLOWANCE_SECONDS,
        confirm=lambda args, ctx: bool(sensitive_words(args["command"], workspace)) and "each time",
        confirm_message=lambda args, ctx: _confirm_message(args["command"], workspace),
        preview=check_command,
        max_bytes=MAX_SHOWN_BYTES,
        overflow="excerpt",
        lifespan=lifespan,
    )
    async def bash(
        command: Annotated[
            str,
            limited_field(
                min_length=1, max_length=_MAX_COMMAND_BYTES, description="What to run, as one would type it."
            ),
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
        child, refused_names = await start(command, workdir)
        result = await run_command(
            child,
            timeout=timeout / 1000,
            max_output_bytes=max_output_bytes,
            grace=grace,
            on_output=OutputProgress(ctx.report),
        )
        output = await result.render()
        cause = _stop_cause(child, refused_names)
        error = _command_error(result, output, timeout, max_output_bytes, cause)
        return _command_outcome(result, output, error, command, description)

    @tool(
        effects={"read"},
        preview=check_id,
        category="system",
        visible=False,
        repeatable=False,
        timeout=lambda args: args["wait"] / 1000 + _STOP_ALLOWANCE_SECONDS,
        max_bytes=MAX_SHOWN_BYTES,
        overflow="excerpt",
        lifespan=lifespan,
    )
    async def bash_output(
        id: BackgroundCommandId,
        ctx: Context,
        wait: Annotated[
            int, Field(ge=0, le=MAX_TIMEOUT_MILLISECONDS, description="Milliseconds to wait for its end.")
        ] = 0,
        jobs: BackgroundCommands | None = _BACKGROUND_COMMANDS,
    ) -> Done:
        """Read what a background command printed since the last look."""
        command = _require_background(jobs).find(id, owner_key(ctx))
        await command.wait_for_end(wait / 1000)
        return _render_new_output(command)

    @tool(
        effects={"execute"},
        preview=check_id,
        category="system",
        visible=False,
        max_bytes=MAX_SHOWN_BYTES,
        overflow="excerpt",
        lifespan=lifespan,
    )
    async def bash_stop(
        id: BackgroundCommandId, ctx: Context, jobs: BackgroundCommands | None = _BACKGROUND_COMMANDS
    ) -> Done:
        """Stop a background command and all that it started, and get the rest of its output."""
        command = _require_background(jobs).find(id, owner_key(ctx))
        command.was_stopped |= command.is_running
        await command.stop()
        return _render_new_output(command)

    return [bash, bash_output, bash_stop]


_BASH_DESCRIPTION = "Run a shell command in the workspace. Each call is a new shell; run servers with background=true."
# Not from PATH of this process: a sandbox shows the system's folders alone.
_SHELL_PATH = shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"
_ONE_PIPE_SCRIPT = 'exec "$0" -c -- "$1" 2>&1'
"""Runs a command with both output streams on one pipe: only there does the kernel keep the order of what is written."""


def _validate_sandbox(sandbox: Any, workspace: Workspace) -> Sandbox | Unprotected:
    if sandbox is not None and not isinstance(sandbox, (Sandbox, Unprotected)):
        raise DefinitionError(
            f"`sandbox` must be a Sandbox or UNPROTECTED, got {sandbox!r}.",
            fix="pass Sandbox(...), or UNPROTECTED to run commands without a sandbox.",
        )
    if not isinstance(sandbox, Unprotected):
        for root in workspace.roots:
            refuse_unsafe_path(root.path)
    return Sandbox() if sandbox is None else sandbox


def _parse_limits(
    count: int, life: float | str, max_unread: int | str, max_output: int | str, grace: float
) -> tuple[int, BackgroundLimits]:
    try:
        max_output_bytes = parse_size(max_output)
        limits = BackgroundLimits(count, parse_duration(life), parse_size(max_unread), float(grace))
        if min(max_output_bytes, limits.max_unread_bytes, limits.timeout_seconds or 1) <= 0:
            raise ValueError("The limits `max_output`, `max_unread` and `life` must be positive.")
        if count < 0 or grace < 0:
            raise ValueError("The limits `background` and `grace` must not be negative.")
    except (ValueError, TypeError, AttributeError) as error:
        fix = "pass values such as life='10m', max_unread='1MiB', max_output='10MiB', grace=0.5."
        raise DefinitionError(str(error), fix=fix) from None
    return max_output_bytes, limits


def sensitive_words(command: str, workspace: Workspace) -> list[str]:
    """The words of a command that name a file with keys or credentials, as far as the text shows them."""
    words = [word for word in _WORD_SEPARATORS.split(command.replace("\\", "")) if word]
    return [word for word in words if _names_path(word, workspace) and workspace.is_sensitive(word)]


def _names_path(word: str, workspace: Workspace) -> bool:
    """Whether a word is a path: `secret` alone is one only if there is such a file."""
    if "/" in word or "." in word:
        return True
    try:
        return workspace.resolve(word).exists()
    except ToolError:
        return False


def _confirm_message(command: str, workspace: Workspace) -> str:
    question = f"Run this command?\n{_render_command(command)}"
    words = [escape_line(word, 200) for word in sensitive_words(command, workspace)]
    return f"{question}\n{', '.join(words)} looks like keys or credentials." if words else question


def _render_command(command: str) -> str:
    """The whole command for the approval question, with characters that could hide a part of it escaped."""
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
        return workspace.working_directory
    folder = workspace.resolve(workdir)
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise InvalidArguments(f"{folder.display_path} is no folder. Give one as workdir.")
    return Path(os.path.join(folder.root.path, *folder.parts))


def _command_outcome(
    result: CommandResult, output: str, error: ToolError | None, command: str, description: str
) -> Done:
    metadata: Mapping[str, Any] = {
        "command": command,
        "exitCode": result.exit_code if result.ending == "ended" else None,
        "truncated": result.output.total_bytes > MAX_SHOWN_BYTES,
        "durationMs": round(result.duration_seconds * 1000),
        "error": None if error is None else str(error).partition("\n")[0],
    }
    if error is not None:
        error.data = metadata
        raise error
    title = escape_line(description or command, _MAX_TITLE_LENGTH)
    return Done(output, title=title, metadata=metadata)


def _stop_cause(child: ChildProcess, refused_names: RefusedNames) -> ToolError | None:
    """Why the command was ended before its time, if it was."""
    if refused_names.renamed_paths:
        return ToolError(refused_names.message, code="denied")
    if child.exceeded_process_limit:
        return ToolError("stopped because it started too many processes", code="limit_exceeded")
    return None


def _command_error(
    result: CommandResult, output: str, timeout: int, max_output_bytes: int, stop_cause: ToolError | None
) -> ToolError | None:
    """The error of a command that failed: the reason on the first line, and the output below it."""
    if stop_cause is not None:
        return ToolError(f"{stop_cause}\n{output}", code=stop_cause.code)
    if result.ending == "timed out":
        limit = f"{timeout / 1000:g} s" if timeout >= 1000 else f"{timeout} ms (`timeout` is in milliseconds)"
        return TimedOut(f"timed out after {limit}, and was stopped\n{output}")
    if result.ending == "flooded":
        problem = f"stopped after printing {max_output_bytes:,} bytes; filter its output, or send it to a file"
        return ToolError(f"{problem}\n{output}", code="too_large")
    return ToolError(f"{describe_exit_code(result.exit_code)}\n{output}") if result.exit_code else None


async def _start_in_background(
    background: BackgroundCommands | None, command: str, ctx: Context, start_child: Any
) -> Done:
    started = await _require_background(background).start(command, owner_key(ctx), start_child)
    text = f"Started as {started.id}. Look at it with bash_output, end it with bash_stop."
    return Done(
        {"id": started.id, "state": started.state_text},
        content=[Text(text)],
        title=escape_line(command, _MAX_TITLE_LENGTH),
        metadata={"id": started.id},
    )


def _require_background(background: BackgroundCommands | None) -> BackgroundCommands:
    if background is None:
        raise Unavailable("Commands run in the background of a runtime only: use `await runtime.call(...)`.")
    return background


def _render_new_output(command: BackgroundCommand) -> Done:
    output, truncated = command.take_new_output()
    data = {
        "id": command.id,
        "state": command.state_text,
        "running": command.is_running,
        "exitCode": None if command.is_running else command.exit_code,
        "output": output,
    }
    text = f"{command.id} {command.state_text}\n{output or '(no new output)'}"
    return Done(
        data,
        content=[Text(text)],
        title=escape_line(command.command, _MAX_TITLE_LENGTH),
        metadata={"id": command.id, "truncated": truncated},
    )
