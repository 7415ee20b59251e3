"""The shell: commands in a sandbox, to their end (`bash`) or in the background (`bash_output`, `bash_stop`)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.background import Background, Bounds, Job, owner_of
from surehand.builtin.shell_run import Progress, Run, ended, run
from surehand.builtin.workspace import Folder, Workspace
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.durations import seconds, size
from surehand.core.errors import DefinitionError, InvalidArguments, TimedOut, ToolError, Unavailable
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.signature import use
from surehand.core.tool import Tool
from surehand.sandbox.bubblewrap import refuse_unsafe
from surehand.sandbox.child import GRACE, Child
from surehand.sandbox.sandbox import Sandbox, Unprotected

LONGEST, USUAL = 600_000, 120_000
"""Milliseconds."""
_SPARE = 5.0
"""Seconds beyond a command's own, in which it is stopped and its output told; then the call's own limit counts."""
_LINE = 120_000
"""Bytes of the longest command that the kernel takes as one argument."""

Milliseconds = Annotated[int, Field(ge=1, le=LONGEST, description=f"Milliseconds to let it run, {LONGEST} at most.")]
_JOBS = use(Background)
Id = Annotated[str, Field(description="What bash answered with.", examples=["bg_3f2a81c09d4e"])]


def shell(
    workspace: Folder | Workspace | None = None,
    *,
    sandbox: Sandbox | Unprotected | None = None,
    background: int = 8,
    life: float | str = "10m",
    kept: int | str = "1MiB",
    flood: int | str = "10MiB",
    grace: float = GRACE,
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
    place = Workspace.of(workspace)
    jail = _checked(sandbox, place)
    most, bounds = _bounds(background, life, kept, flood, grace)
    network = isinstance(jail, Unprotected) or jail.network

    def lifespan() -> Background:
        return Background(bounds)

    async def start(command: str, workdir: str | None) -> Child:
        _refuse_impossible(command)
        cwd = _folder(place, workdir)
        return await Child.start([_SHELL, "-c", "--", command], cwd=cwd, sandbox=jail, folders=place.shown())

    @tool(
        description=f"{_BASH}{'' if network else ' There is no network.'}",
        effects={"execute"},
        optional_effects={"network"} if network else set[str](),
        category="system",
        visible=False,
        timeout=lambda args: args["timeout"] / 1000 + grace + _SPARE,
        confirm_message=lambda args, ctx: f"Run this command?\n{_visible(args['command'])}",
        lifespan=lifespan,
        examples=[{"command": "pytest -q", "description": "Run the tests", "timeout": 300_000}],
    )
    async def bash(
        command: Annotated[
            str, Field(min_length=1, max_length=_LINE, description="What to run, as one would type it.")
        ],
        ctx: Context,
        description: Annotated[str, Field(description="What it does, in five to ten words.")] = "",
        timeout: Milliseconds = USUAL,
        workdir: Annotated[
            str | None, Field(description="The folder to run it in; the workspace's root if left out.")
        ] = None,
        background: Annotated[bool, Field(description="Answer at once, and go on running.")] = False,
        jobs: Background | None = _JOBS,
    ) -> Done:
        if background:
            return await _begun(jobs, command, ctx, lambda: start(command, workdir))
        child = await start(command, workdir)
        result = await run(child, timeout=timeout / 1000, flood=most, grace=grace, told=Progress(ctx.report))
        return _told(result, command, description, timeout, most, child.overgrown)

    @tool(
        effects={"read"},
        category="system",
        visible=False,
        repeatable=False,
        timeout=lambda args: args["wait"] / 1000 + _SPARE,
        lifespan=lifespan,
        requires=("bash",),
    )
    async def bash_output(
        id: Id,
        ctx: Context,
        wait: Annotated[int, Field(ge=0, le=LONGEST, description="Milliseconds to wait for its end.")] = 0,
        jobs: Background | None = _JOBS,
    ) -> Done:
        """What a background command printed since the last look, and whether it still runs."""
        job = _there(jobs).find(id, owner_of(ctx))
        await job.finished(wait / 1000)
        return _news(job)

    @tool(effects={"execute"}, category="system", visible=False, lifespan=lifespan, requires=("bash",))
    async def bash_stop(id: Id, ctx: Context, jobs: Background | None = _JOBS) -> Done:
        """Stop a background command and all that it started, and get the rest of its output."""
        job = _there(jobs).find(id, owner_of(ctx))
        job.stopped |= job.running
        await job.stop()
        return _news(job)

    return [bash, bash_output, bash_stop]


_BASH = "Run a shell command in the workspace. Each call is a new shell; run servers with background=true."
_SHELL = shutil.which("bash", path="/usr/bin:/bin") or "/bin/sh"


def _checked(sandbox: Any, workspace: Workspace) -> Sandbox | Unprotected:
    if sandbox is not None and not isinstance(sandbox, (Sandbox, Unprotected)):
        raise DefinitionError(
            f"{sandbox!r} is no sandbox.", fix="give Sandbox(...), or UNPROTECTED to run commands without one."
        )
    if not isinstance(sandbox, Unprotected):
        for folder in workspace.folders:
            refuse_unsafe(folder.path)
    return Sandbox() if sandbox is None else sandbox


def _bounds(count: int, life: float | str, kept: int | str, flood: int | str, grace: float) -> tuple[int, Bounds]:
    try:
        most, bounds = size(flood), Bounds(count, seconds(life), size(kept), float(grace))
        if count < 0 or grace < 0 or min(most, bounds.kept, bounds.life or 1) <= 0:
            raise ValueError("A limit is below zero.")
    except (ValueError, TypeError, AttributeError) as error:
        raise DefinitionError(str(error), fix="give life='10m', kept='1MiB', flood='10MiB', grace=0.5.") from None
    return most, bounds


def _visible(command: str) -> str:
    """All of a command, for the person who is asked: whatever could hide a part of it is written out."""
    return "\n".join(escape_line(line) for line in command.split("\n"))


def _refuse_impossible(command: str) -> None:
    try:
        length = len(command.encode())
    except UnicodeEncodeError:
        raise InvalidArguments("The command holds characters that no command can have. Leave them out.") from None
    if "\0" in command:
        raise InvalidArguments("The command holds a NUL character. Leave it out, or write it as '\\0'.")
    if length > _LINE:
        raise InvalidArguments(f"The command is {length:,} bytes long. Write it to a file, and run that.")


def _folder(workspace: Workspace, workdir: str | None) -> Path:
    if workdir is None:
        return workspace.root
    spot = workspace.spot(workdir)
    if not stat.S_ISDIR(spot.stat().st_mode):
        raise InvalidArguments(f"{spot.shown} is no folder. Give one as workdir.")
    return Path(os.path.join(spot.root.path, *spot.parts))


def _told(result: Run, command: str, description: str, timeout: int, flood: int, overgrown: bool) -> Done:
    problem = _problem(result, timeout, flood, overgrown)
    metadata: Mapping[str, Any] = {
        "command": command,
        "exitCode": result.code if result.ending == "ended" else None,
        "truncated": result.truncated,
        "durationMs": round(result.seconds * 1000),
        "error": None if problem is None else str(problem).partition("\n")[0],
    }
    if problem is None:
        return Done(result.output or "(no output)", title=escape_line(description or command, 80), metadata=metadata)
    problem.data = metadata
    raise problem


def _problem(result: Run, timeout: int, flood: int, overgrown: bool) -> ToolError | None:
    """What to raise, the reason first and then the output."""
    output = f"\n{result.output or '(no output)'}"
    if result.ending == "timed out":
        took = f"{timeout / 1000:g} s" if timeout >= 1000 else f"{timeout} ms (`timeout` is in milliseconds)"
        return TimedOut(f"timed out after {took}, and was stopped{output}")
    if result.ending == "flooded":
        problem = f"stopped after printing {flood:,} bytes; filter its output, or send it to a file"
        return ToolError(f"{problem}{output}", code="too_large")
    if overgrown:
        return ToolError(f"stopped because it started too many processes{output}", code="limit_exceeded")
    return ToolError(f"{ended(result.code)}{output}") if result.code else None


async def _begun(jobs: Background | None, command: str, ctx: Context, begin: Any) -> Done:
    job = await _there(jobs).start(command, owner_of(ctx), begin)
    told = f"Started as {job.id}. Look at it with bash_output, end it with bash_stop."
    return Done(
        {"id": job.id, "state": job.state},
        content=[Text(told)],
        title=escape_line(command, 80),
        metadata={"id": job.id},
    )


def _there(jobs: Background | None) -> Background:
    if jobs is None:
        raise Unavailable("Commands run in the background of a runtime only: use `await runtime.call(...)`.")
    return jobs


def _news(job: Job) -> Done:
    output, truncated = job.news()
    code = None if job.running else job.code
    data = {"id": job.id, "state": job.state, "running": job.running, "exitCode": code, "output": output}
    text = f"{job.id} {job.state}\n{output or '(no new output)'}"
    return Done(
        data, content=[Text(text)], title=escape_line(job.command, 80), metadata={"id": job.id, "truncated": truncated}
    )
