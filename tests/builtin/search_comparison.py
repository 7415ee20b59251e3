"""Compares ripgrep with the Python search: random searches in random trees must give the same results.

`python -m tests.builtin.search_comparison ROUNDS [SEED]` runs more rounds and prints the differences.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from surehand import Workspace
from surehand.builtin.search import python_search, ripgrep_search
from surehand.builtin.search.newest_files import newest_by_ripgrep, newest_by_walking
from surehand.builtin.search.results import ResultFormat
from surehand.builtin.search.search_pattern import SearchPattern
from surehand.builtin.search.search_scope import SearchScope, build_search_scope
from surehand.core.errors import ToolError

FILE_NAMES = [
    "a", "b", "ab", "foo", "foo.py", "bar.py", "x.log", "build", "src", "lib", ".hid", ".x.py", "a.b.c", "UP.PY",
    "{c}", "secret.txt", "id_rsa", "über.txt", "new\nline", "sp ace", "-dash", "[br]", "star*", "back\\slash",
    "tab\t", "k.pem", "node_modules", "data.env",
]  # fmt: skip
GITIGNORE_RULES = [
    "*.log", "build/", "/src", "foo*", "!foo.py", "a/b", "**/lib", "lib/**", "a/**/b", "[ab]", "*.p[xy]", "\\#x",
    "# no", "", "!a", "/*", "!/src", "*", "!*/", "?", "a?", "*.b.*", "node_modules", "!build/", "sp ace",
    "sp\\ ace", "  ", "ab/", "x.log  ", "*/foo.py", "**/*.py", "!**/bar.py", "über*", "src/*", "!src/foo*", "**",
    "foo/**", "a**", "*a*b*", "[", "a[", "\\", "/", "//", "**/", "/**", "src/**/foo.py", "foo.py/", "[!a]",
    "[^ab]*",
]  # fmt: skip
WORDS = [
    "foo", "bar", "baz", "Foo", "über", "ÜBER", "a", "b", "ab", "foo;", "  ", "\t", "\r", "x" * 300, "0", "42", "_",
    "é", "\u017f", "\u212a", "k", "日本", "\xff", "(", ")", "{", "}", "[", ".", "\\",
]  # fmt: skip
PLAIN_PATTERNS = [
    "foo", "Foo", "a", "über", "ab", "o b", "42", " ", "é", "日", "(", "x" * 50, "foo bar", "ü", "{", "-e", "k",
    "\t", "foo\nbar", "\r", "S", "\\",
]  # fmt: skip
REGEX_PATTERNS = [
    "foo", "fo+", "^foo", "foo$", "^foo$", "^$", "[^;]$", r"\w+", r"\W", r"\d+", r"\s$", "a.b", "a.*b", ".",
    "(foo|bar)$", r"^\s*$", "x{3,}", "[a-c]+", r"\S+\s\S+", "é", "(?i)über", "[[:alpha:]]+", "^.{3}$", r"foo\n",
    r"o\nb", r"\{", "a{", "{", "foo{}", "[^a-z]", "ab?c*", "(a|b)*$", r"\.", "^[^#]", "(?i)k", r"\x41", r"\p{Lu}",
    "$", "^", "x*", "(?s)a.b", r"[^\n]", r"foo\s+bar", r"[\w-]+", r"[\d.]+$", "(", "[", "*", r"\S$", r"(?m)^b",
    r"[\s\S]b", r"x{,2}y?",
]  # fmt: skip
GLOB_PATTERNS = [
    "**/*", "*", "*.py", "**/*.py", "src/**", "src/*", "*/foo*", "{a,b}/**", "*.{py,log}", "**/a/**", "a/**/b",
    "[a-f]*", "?", "foo.py", "src/foo.py", "**/.x.py", ".hid/**", "**/*.*", "!(a)", "*a*", "**/b/*", "./*", "über*",
    "*.p?", r"*\**", "**/src/**/*.py", "{src,lib}/*.py", "**/foo*/**", "[!a]*", "\\{c\\}", "{foo,{bar,x}}.*",
]  # fmt: skip
LINE_ENDS = ["\n", "\n", "\r\n"]


def random_content(generator: random.Random) -> bytes:
    """Random file content in a random encoding."""
    end = generator.choice(LINE_ENDS)
    lines = [" ".join(generator.choices(WORDS, k=generator.randint(0, 5))) for _ in range(generator.randint(0, 8))]
    text = end.join(lines) + generator.choice([end, ""])
    encoders = [
        *[text.encode] * 8, lambda: text.encode("latin-1", "replace"), lambda: text.encode() + b"\0" + text.encode(),
        lambda: text.encode("utf-16"), lambda: text.encode("utf-8-sig"), lambda: b"\xfe\xff" + text.encode("utf-16-be"),
    ]  # fmt: skip
    return generator.choice(encoders)()


def write_random_tree(generator: random.Random, folder: Path, depth: int = 0) -> None:
    """Write a random tree of folders, files, links, FIFOs and ignore rules."""
    for name in generator.sample(FILE_NAMES, generator.randint(1, 7)):
        kind = generator.random()
        if kind < 0.4 and depth < 3:
            (folder / name).mkdir()
            write_random_tree(generator, folder / name, depth + 1)
        elif kind < 0.45:
            (folder / name).symlink_to(generator.choice(["..", "a", "/etc/passwd", "foo.py", "src"]))
        elif kind < 0.47:
            os.mkfifo(folder / name)
        else:
            (folder / name).write_bytes(random_content(generator))
    if generator.random() < 0.5:
        rules = generator.choice(LINE_ENDS).join([*generator.choices(GITIGNORE_RULES, k=generator.randint(1, 5)), ""])
        (folder / ".gitignore").write_bytes(rules.encode())


def find_differences(seed: int, searches: int = 3) -> Iterator[str]:
    """Describe each search of one random tree for which the two engines differ."""
    generator = random.Random(seed)
    with TemporaryDirectory(prefix="surehand-") as root:
        write_random_tree(generator, Path(root))
        workspace = Workspace(root)
        for _ in range(searches):
            scope = _random_scope(generator, workspace)
            if scope is not None:
                yield from _compare_listings(scope, seed)
                yield from _compare_searches(generator, scope, seed)
        workspace.close()


def _random_scope(generator: random.Random, workspace: Workspace) -> SearchScope | None:
    folders = [os.path.relpath(folder, workspace.root) for folder, _, _ in os.walk(workspace.root)]
    path = generator.choice(folders) if generator.random() < 0.4 else "."
    try:
        scope = build_search_scope(workspace, path, generator.choice(GLOB_PATTERNS), lambda: False)
    except ToolError:
        return None
    return None if scope.is_empty else scope


def _compare_listings(scope: SearchScope, seed: int) -> Iterator[str]:
    ripgrep_result, python_result = (engine(scope, 1000) for engine in (newest_by_ripgrep, newest_by_walking))
    if ripgrep_result != python_result:
        yield f"{seed}: {scope.glob.pattern!r} in {scope.base_path.parts}\n  {ripgrep_result}\n  {python_result}"


def _compare_searches(generator: random.Random, scope: SearchScope, seed: int) -> Iterator[str]:
    regex, case = generator.random() < 0.6, generator.random() < 0.7
    pattern = SearchPattern(
        generator.choice(REGEX_PATTERNS if regex else PLAIN_PATTERNS), regex, case, regex and generator.random() < 0.15
    )
    result_format = ResultFormat(
        generator.choice(["content", "content", "files", "count"]), 10_000, generator.choice([0, 0, 1, 3])
    )
    ripgrep_result, python_result = (
        _search(engine, scope, pattern, result_format) for engine in (ripgrep_search, python_search)
    )
    if ripgrep_result != python_result:
        search = f"{pattern} {result_format} {scope.glob.pattern!r} in {scope.base_path.parts}"
        yield f"{seed}: {search}\n  {ripgrep_result}\n  {python_result}"


def _search(engine: Any, scope: SearchScope, pattern: SearchPattern, result_format: ResultFormat) -> Any:
    try:
        return asdict(engine.search(scope, pattern, result_format))
    except ToolError as error:
        return error.code


def main() -> None:
    """Compare the engines on as many trees as requested."""
    rounds, first = (int(argument) for argument in (*sys.argv[1:3], *("100", "0")[len(sys.argv) - 1 :]))
    difference_count = 0
    for seed in range(first, first + rounds):
        for difference in find_differences(seed):
            difference_count += 1
            print(difference[:3000])
    print(f"{rounds:,} trees, {difference_count} differences")
    sys.exit(bool(difference_count))


if __name__ == "__main__":
    main()
