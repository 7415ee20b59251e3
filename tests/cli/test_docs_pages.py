"""Every console session in the docs is run in a terminal, page by page in a folder of its own.

- A fence that says `file=NAME` is written into that folder when the page comes to it.
- In a `console` fence, a line that begins with `$ ` is run, and what follows it is what the terminal then shows. `...`
  stands for anything; what follows a prompt there is what a person types.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from surehand.cli.command_group import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"
EVERY_PAGE = [DOCS.parent / "README.md", *sorted(DOCS.glob("**/*.md"))]
PAGES = [page for page in EVERY_PAGE if "```console" in page.read_text(encoding="utf-8")]
FENCE = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^(Run it\?.*?dit: |Answer \(JSON or text\): )(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Written:
    """A file that the page gives the reader to write."""

    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """A command, with what it shows."""

    command: str
    shown: str


def steps_in(text: str) -> Iterator[Written | Typed]:
    """What a reader does, from the top of a page to its end."""
    for block in FENCE.finditer(text):
        if name := re.search(r"\bfile=(\S+)", block["info"]):
            yield Written(name[1], block["text"])
        elif block["info"].strip() == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block["text"], re.MULTILINE):
                yield Typed(command, shown.strip("\n"))


def squeezed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_is_what_happens(page, terminal, tmp_path, fast_path):
    for step in steps_in(page.read_text(encoding="utf-8")):
        if isinstance(step, Written):
            (tmp_path / step.name).write_text(step.text, encoding="utf-8")
            continue
        screen = terminal(command=["sh", "-c", step.command], PATH=fast_path, NO_COLOR="1")
        for question, answer in PROMPT.findall(step.shown):
            screen.sees(re.escape(question))
            screen.types(answer)
        screen.ends()

        wanted = ".*?".join(re.escape(part) for part in squeezed(step.shown).split("..."))
        assert re.fullmatch(wanted, squeezed(screen.left), re.DOTALL), f"{step.command}\n{screen.text}"


def test_the_pages_about_the_command_line_are_among_them():
    assert {"tutorial.md", "command-line.md", "cli.md", "config.md", "survive-a-restart.md"} <= {
        page.name for page in PAGES
    }


def test_every_exit_code_and_every_option_is_on_the_page(run):
    page = (DOCS / "reference/cli.md").read_text(encoding="utf-8")

    for code in (0, 1, 2, 3, 4, 5, 130):
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)
    further = {"store": ("info", "migrate", "prune"), "audit": ("verify",), "lock": ("diff", "accept")}
    further["config"] = ("check", "schema", "token")
    commands = [[command] for command in COMMANDS if command not in further]
    for command in [*commands, *([name, inner] for name, inners in further.items() for inner in inners)]:
        assert re.search(rf"^surehand {' .*'.join(command)}\b", page, re.MULTILINE), command
        for option in re.findall(r"--[a-z]+", run(*command, "--help").out):
            assert option == "--help" or f"`{option}" in page or f"{option}`" in page, option


def test_every_setting_is_on_the_page():
    from surehand.config.config import SECTION_PARSERS
    from surehand.config.sections import DEFAULTS_PARSERS

    page = (DOCS / "reference/config.md").read_text(encoding="utf-8")

    for name in (*SECTION_PARSERS, *DEFAULTS_PARSERS):
        assert f"`{name}`" in page, name


def test_steps_are_told_apart_and_stand_in_their_order():
    page = """
```console
$ one
shown

more
$ two
```
```python no-run file=a.py
pass
```
```bash
$ not run
```
"""

    assert list(steps_in(page)) == [Typed("one", "shown\n\nmore"), Typed("two", ""), Written("a.py", "pass\n")]
