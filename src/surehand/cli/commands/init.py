"""`surehand init`: write a first configuration file and two example tools."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from surehand.cli.exit_codes import EXIT_USAGE, CommandExit

CONFIG_TEMPLATE = """\
# The configuration of surehand. Remove a `#` to set an option.

tools: # Python files or modules, relative to this file; `tools.py:count_words` takes one tool
  - tools.py

# mcp_servers: # as `mcpServers` in other programs' files; `surehand doctor` checks them
#   git: {command: uvx, args: [mcp-server-git]}

# store: surehand.db # stores pending calls: `surehand pending` lists them, `surehand approve` answers

# workspace: . # the folder that relative file paths start in

# defaults:
#   tool_timeout: 30s # or 5m, or off
#   max_output: 100kB # what a model sees of one result; the rest is stored under a handle
#   max_concurrent: 3 # concurrent calls of tools without a queue of their own

# log: info # a line for each call on stderr; or debug, warning, error, off

# queues: # a tool uses one with @tool(queue="slow")
#   slow: {concurrent: 1, rate: 30/min}

# Without rules, tools that write, execute or use the network ask for approval. The first matching rule decides.
# policy:
#   - {tools: save_note, decision: allow}
#   - {effects: [write, execute, network], decision: ask}
"""

TOOLS_TEMPLATE = '''\
"""Two tools: one that only reads, and one that asks for approval."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from surehand import Context, ToolError, tool


@tool(effects={"read"})
async def count_words(text: str) -> dict[str, int]:
    """Count the words and characters of a text."""
    return {"words": len(text.split()), "characters": len(text)}


@tool(
    effects={"write"},
    confirm_message=lambda args, ctx: f"Write {args['name']}.txt into {ctx.workspace}?",
    preview=lambda args, ctx: args["text"],
)
def save_note(
    name: Annotated[str, Field(description="The name of the file, without its ending.", pattern=r"^[\\w-]+$")],
    text: str,
    ctx: Context,
) -> str:
    """Save a note as a text file."""
    path = Path(ctx.workspace, f"{name}.txt")
    if path.exists():
        raise ToolError(f"There is a note {name!r} already. Choose another name.")
    path.write_text(text + "\\n")
    return f"Saved {path.name}."
'''

NEXT_STEPS_TEMPLATE = """
Next:

{enter}  surehand tools
  surehand call count_words text="one two three"
  surehand call save_note name=first text="It asks before it writes."
"""


@click.command("init")
@click.argument("folder", required=False, default=".", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Write a first surehand.yaml and tools.py into FOLDER."""
    files = {folder / "surehand.yaml": CONFIG_TEMPLATE, folder / "tools.py": TOOLS_TEMPLATE}
    existing = [str(path) for path in files if path.exists()]
    if existing:
        verb = "exists" if len(existing) == 1 else "exist"
        problem = f"{' and '.join(existing)} already {verb}, so nothing was written."
        raise CommandExit(EXIT_USAGE, f"{problem} Give another folder: surehand init FOLDER.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            click.echo(f"Wrote {path}")
    except OSError as error:
        raise CommandExit(EXIT_USAGE, f"{error.filename} cannot be written: {error.strerror}.") from error
    enter = "" if folder == Path() else f"  cd {shlex.quote(str(folder))}\n"
    click.echo(NEXT_STEPS_TEMPLATE.format(enter=enter), nl=False)
