"""Every Python example in README.md and docs/ is run as a reader would run it: pasted into a file of an empty folder.

What a fence may say beside `python`:

- `file=NAME`: the example is that file, and stays in the folder for the later examples of the page. A file `test_*.py`
  is run with pytest, all others as programs. Blocks of other languages can be files too: `yaml file=surehand.yaml`.
- `needs=bubblewrap`: the example is skipped on machines without it.

A `text output` block right after an example is exactly what that example prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import mcp  # noqa: F401 - its stdio client keeps the sys.stderr of its import, which must not be that of one test
import pytest

from tests.requirements import needs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"^ *(?P<ticks>`{3,}|~{3,}) *(?P<info>[^`]*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    """Number of the first line of its text, counted from one."""
    info: tuple[str, ...]
    text: str
    follows_text: bool
    """Whether anything but blank lines stands between this block and the one before."""

    @property
    def file_name(self) -> str | None:
        """Name of the file that the block gives the reader to write."""
        return next((word.removeprefix("file=") for word in self.info if word.startswith("file=")), None)


@dataclass(frozen=True, slots=True)
class Example:
    """A Python block, the files that the page has shown before it, and the output that it must print."""

    block: Block
    earlier_files: tuple[Block, ...] = ()
    output: str | None = None

    def __str__(self) -> str:
        page = self.block.page
        return f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name}:{self.block.line - 1}"


def blocks_in(page: Path) -> Iterator[Block]:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    follows_text = True
    for number, line in lines:
        if fence := FENCE.match(line):
            text = []
            for _, inner in lines:
                closing = FENCE.match(inner)
                if closing and closing["ticks"].startswith(fence["ticks"]) and not closing["info"]:
                    break
                text.append(inner)
            yield Block(page, number + 1, tuple(fence["info"].split()), dedent("\n".join(text)), follows_text)
            follows_text = False
        elif line.strip():
            follows_text = True


def examples_in(page: Path) -> Iterator[Example]:
    blocks = list(blocks_in(page))
    files: tuple[Block, ...] = ()
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if block.info[:1] == ("python",):
            has_output = following is not None and following.info == ("text", "output") and not following.follows_text
            yield Example(block, files, following.text if has_output and following else None)
        if block.file_name:
            files = (*files, block)


def run(example: Example, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for earlier in example.earlier_files:
        (folder / str(earlier.file_name)).write_text(earlier.text + "\n", encoding="utf-8")
    program = folder / (example.block.file_name or "example.py")
    program.write_text(example.block.text + "\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    if program.name.startswith("test_"):
        run_with_pytest(program)
        return

    run_program(program, example.block, monkeypatch)

    if example.output is not None:
        assert capsys.readouterr().out.strip() == example.output.strip()


def run_program(program: Path, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a file as `python FILE` does, but in this process: starting an interpreter for each would take minutes."""
    padding = "\n" * (block.line - 1)  # line numbers of a traceback are then those of the page
    code = compile(padding + block.text, str(block.page), "exec", dont_inherit=True)
    # A real module in its place: dataclasses and pydantic look up annotations there.
    module = ModuleType("__main__")
    module.__file__ = str(program)
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.syspath_prepend(str(program.parent))
    known_modules = set(sys.modules)
    try:
        exec(code, vars(module))
    finally:
        for name in set(sys.modules) - known_modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(program.parent)):
                del sys.modules[name]  # another page may have a file of the same name


def run_with_pytest(program: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", program.name]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=program.parent)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert " passed" in finished.stdout, finished.stdout


def parameter(example: Example) -> object:
    requirements = {word.removeprefix("needs=") for word in example.block.info if word.startswith("needs=")}
    return pytest.param(example, marks=[needs(name) for name in requirements], id=str(example))


@pytest.mark.timeout(80)  # some examples start a server, which takes seconds to import
@pytest.mark.parametrize("example", [parameter(e) for page in PAGES for e in examples_in(page)])
def test_an_example_works_when_it_is_pasted_into_a_file(example, capsys, monkeypatch, tmp_path):
    for variable in ("SUREHAND_CACHE", "SUREHAND_STATE"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    folder = tmp_path / "folder"
    folder.mkdir()

    run(example, folder, capsys, monkeypatch)


@pytest.fixture
def page(tmp_path):
    def write(text: str) -> list[Example]:
        path = tmp_path / "page.md"
        path.write_text(dedent(text), encoding="utf-8")
        return list(examples_in(path))

    return write


def test_only_python_blocks_are_examples_and_each_knows_its_line(page):
    examples = page("""\
        # Title
        ```python
        a = 1
        ```
        ```bash
        exit 1
        ```
        ````markdown
        ```python
        quoted
        ```
        ````
        1. In a list:
           ```python
           if True:
               b = 2
           ```
        """)

    assert [str(example) for example in examples] == ["page.md:2", "page.md:14"]
    assert examples[1].block.text == "if True:\n    b = 2"


def test_an_example_runs_as_the_main_program(page, tmp_path, capsys, monkeypatch):
    (example,) = page("""\
        ```python
        import asyncio
        async def main():
            print("hello")
        if __name__ == "__main__":
            asyncio.run(main())
        ```
        ```text output
        hello
        ```
        """)

    run(example, tmp_path, capsys, monkeypatch)


def test_an_example_that_awaits_outside_of_a_function_fails(page, tmp_path, capsys, monkeypatch):
    (example,) = page("""\
        ```python
        import asyncio
        await asyncio.sleep(0)
        ```
        """)

    with pytest.raises(SyntaxError) as error:
        run(example, tmp_path, capsys, monkeypatch)
    assert error.value.lineno == 3


def test_an_example_needs_its_own_imports_but_finds_the_files_of_its_page(page, tmp_path, capsys, monkeypatch):
    first, second, third = page("""\
        ```python file=price_list.py
        import json
        price = 3
        ```
        ```python
        import price_list
        print(price_list.price)
        ```
        ```text output
        3
        ```
        ```python
        print(json.dumps(1))
        ```
        """)

    run(first, tmp_path, capsys, monkeypatch)
    run(second, tmp_path, capsys, monkeypatch)
    with pytest.raises(NameError):
        run(third, tmp_path, capsys, monkeypatch)


@pytest.mark.timeout(60)  # it starts another pytest
def test_a_file_of_tests_is_run_with_pytest(page, tmp_path, capsys, monkeypatch):
    good, bad = page("""\
        ```python file=test_good.py
        def test_one():
            assert 1 == 1
        ```
        ```python file=test_bad.py
        def test_two():
            assert 1 == 2
        ```
        """)

    run(good, tmp_path, capsys, monkeypatch)
    with pytest.raises(AssertionError, match="1 failed"):
        run(bad, tmp_path, capsys, monkeypatch)


def test_output_that_differs_from_the_page_fails(page, tmp_path, capsys, monkeypatch):
    (example,) = page("""\
        ```python
        print("one")
        ```
        ```text output
        two
        ```
        """)

    with pytest.raises(AssertionError):
        run(example, tmp_path, capsys, monkeypatch)


def test_output_counts_only_right_after_its_example(page):
    (example,) = page("""\
        ```python
        print("one")
        ```
        Something else prints:
        ```text output
        two
        ```
        """)

    assert example.output is None
