"""Every console session on the pages about the command line is run in a terminal, page by page in a folder of its own.

- A fence that says `file=NAME` is written into that folder first.
- In a `console` fence, a line that begins with `$ ` is run, and what follows it is what the terminal then shows. `...`
  stands for anything; what follows a prompt there is what a person types.
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "how-to/command-line.md", DOCS / "reference/cli.md", DOCS / "reference/config.md"]
FENCE = re.compile(r"^```(?P<info>[^\n`]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^(Run it\?.*?dit: |Answer \(JSON or text\): )(.*)$", re.MULTILINE)


def sessions_in(text: str) -> list[tuple[str, str]]:
    """Commands, each with what it shows."""
    blocks = (block["text"] for block in FENCE.finditer(text) if block["info"].strip() == "console")
    return [
        (command, shown.strip("\n"))
        for block in blocks
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def write_files(text: str, folder: Path) -> None:
    for block in FENCE.finditer(text):
        if name := re.search(r"\bfile=(\S+)", block["info"]):
            (folder / name[1]).write_text(block["text"], encoding="utf-8")


def squeezed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@pytest.mark.timeout(15)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_is_what_happens(page, terminal, tmp_path, on_path):
    text = page.read_text(encoding="utf-8")
    write_files(text, tmp_path)
    sessions = sessions_in(text)
    assert sessions

    for command, shown in sessions:
        screen = terminal(command=["sh", "-c", command], PATH=on_path, NO_COLOR="1")
        for question, answer in PROMPT.findall(shown):
            screen.sees(re.escape(question))
            screen.types(answer)
        screen.ends()

        wanted = ".*?".join(re.escape(part) for part in squeezed(shown).split("..."))
        assert re.fullmatch(wanted, squeezed(screen.text), re.DOTALL), f"{command}\n{screen.text}"


def test_every_exit_code_and_every_option_is_on_the_page(run):
    page = (DOCS / "reference/cli.md").read_text(encoding="utf-8")

    for code in (0, 1, 2, 3, 4, 5, 130):
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)
    for command in ("tools", "describe", "call", "init"):
        for option in re.findall(r"--[a-z]+", run(command, "--help").out):
            assert option == "--help" or f"`{option}" in page or f"{option}`" in page, option


def test_every_setting_is_on_the_page():
    from toolwright.config.config import SECTIONS
    from toolwright.config.sections import DEFAULTS

    page = (DOCS / "reference/config.md").read_text(encoding="utf-8")

    for name in (*SECTIONS, *DEFAULTS):
        assert f"`{name}`" in page, name


def test_sessions_are_told_apart():
    page = "```console\n$ one\nshown\n\nmore\n$ two\n```\n```bash\n$ not run\n```\n"

    assert sessions_in(page) == [("one", "shown\n\nmore"), ("two", "")]
