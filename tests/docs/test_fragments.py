"""Every Python example in README.md and docs/ is run, one test each, in an empty folder. What a fence may say:

- `python`: runs on its own; top-level `await` works.
- `python continue`: runs after the examples before it, back to the last one that does not continue.
- `python no-run`: is compiled only.
- `python needs=bubblewrap`: is run where the machine has that.
- `text output`, right after an example: exactly what that one prints.
"""

import ast
import asyncio
import inspect
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import CodeType, ModuleType

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
    """Where its text begins, counted from one."""
    info: tuple[str, ...]
    text: str
    after_text: bool
    """Something other than blank lines stands between it and the block before."""

    def compiled(self) -> CodeType:
        padded = "\n" * (self.line - 1) + self.text  # so that a traceback points into the page
        return compile(padded, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@dataclass(frozen=True, slots=True)
class Example:
    """A Python block, what has to run before it, and what it has to print."""

    block: Block
    before: tuple[Block, ...] = ()
    prints: str | None = None

    def __str__(self) -> str:
        page = self.block.page
        return f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name}:{self.block.line - 1}"


def blocks_in(page: Path) -> Iterator[Block]:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    after_text = True
    for number, line in lines:
        if fence := FENCE.match(line):
            text = []
            for _, inner in lines:
                closing = FENCE.match(inner)
                if closing and closing["ticks"].startswith(fence["ticks"]) and not closing["info"]:
                    break
                text.append(inner)
            yield Block(page, number + 1, tuple(fence["info"].split()), dedent("\n".join(text)), after_text)
            after_text = False
        elif line.strip():
            after_text = True


def examples_in(page: Path) -> Iterator[Example]:
    blocks = list(blocks_in(page))
    before: tuple[Block, ...] = ()
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if block.info[:1] != ("python",):
            continue
        shown = following is not None and following.info == ("text", "output") and not following.after_text
        if "continue" not in block.info and "no-run" not in block.info:
            before = ()
        yield Example(block, before, following.text if shown and following else None)
        if "no-run" not in block.info:
            before = (*before, block)


def run(example: Example, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code = example.block.compiled()
    if "no-run" in example.block.info:
        return
    # A real module in its place: dataclasses and pydantic look up annotations there.
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    with asyncio.Runner() as runner:
        for earlier in example.before:
            execute(earlier.compiled(), module, runner)
        capsys.readouterr()
        execute(code, module, runner)
    printed = capsys.readouterr().out
    if example.prints is not None:
        assert printed.strip() == example.prints.strip()


def execute(code: CodeType, module: ModuleType, runner: asyncio.Runner) -> None:
    # `eval` of a body that awaits gives a coroutine; of any other it runs the body and gives None.
    body = eval(code, vars(module))
    if inspect.iscoroutine(body):
        runner.run(body)


def is_fragment(block: Block) -> bool:
    """Whether a block needs more than being pasted into a file."""
    if "continue" in block.info or "no-run" in block.info:
        return True
    try:
        compile(block.text, "block", "exec")
    except SyntaxError:
        return True
    return False


def marked(example: Example) -> object:
    wanted = {word.removeprefix("needs=") for block in (*example.before, example.block) for word in block.info
              if word.startswith("needs=")}  # fmt: skip
    return pytest.param(example, marks=[needs(what) for what in wanted], id=str(example))


@pytest.mark.timeout(80)  # some start a server, which takes seconds to load
@pytest.mark.parametrize(
    "example", [marked(e) for page in PAGES if page.exists() for e in examples_in(page) if is_fragment(e.block)]
)
def test_an_example_in_the_docs_works(example, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for place in ("SUREHAND_CACHE", "SUREHAND_STATE"):
        monkeypatch.setenv(place, str(tmp_path / place))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))

    run(example, capsys, monkeypatch)


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


def test_an_example_may_await_and_later_ones_may_continue_it(page, capsys, monkeypatch):
    first, second, third = page("""\
        ```python
        import asyncio
        from dataclasses import dataclass
        @dataclass
        class Point:
            x: "int"
        async def numbers():
            yield Point(await asyncio.sleep(0, 1))
        loop = await asyncio.sleep(0, asyncio.get_running_loop())
        ```
        ```python continue
        async for number in numbers():
            print(number)
        assert asyncio.get_running_loop() is loop
        ```

        ```text output
        Point(x=1)
        ```
        ```python
        assert "numbers" not in globals()
        ```
        """)

    for example in (first, second, third):
        run(example, capsys, monkeypatch)


def test_an_example_without_await_may_start_a_loop_itself(page, capsys, monkeypatch):
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

    run(example, capsys, monkeypatch)


def test_output_that_differs_from_the_page_fails(page, capsys, monkeypatch):
    (example,) = page("""\
        ```python
        print("one")
        ```
        ```text output
        two
        ```
        """)

    with pytest.raises(AssertionError):
        run(example, capsys, monkeypatch)


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

    assert example.prints is None


def test_an_example_that_is_not_run_still_has_to_compile(page, capsys, monkeypatch):
    good, bad = page("""\
        ```python no-run
        await absent()
        ```
        ```python no-run
        def
        ```
        """)

    run(good, capsys, monkeypatch)
    with pytest.raises(SyntaxError) as error:
        run(bad, capsys, monkeypatch)
    assert error.value.lineno == 5
