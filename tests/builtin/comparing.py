"""Searches random trees with random queries, by ripgrep and by the Python search, and compares the results.

`python -m tests.builtin.comparing ROUNDS [SEED]` does it for longer, and prints what differs.
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

NAMES = [
    "a", "b", "ab", "foo", "foo.py", "bar.py", "x.log", "build", "src", "lib", ".hid", ".x.py", "a.b.c", "UP.PY",
    "{c}", "secret.txt", "id_rsa", "über.txt", "new\nline", "sp ace", "-dash", "[br]", "star*", "back\\slash",
    "tab\t", "k.pem", "node_modules", "data.env",
]  # fmt: skip
RULES = [
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
PLAIN = [
    "foo", "Foo", "a", "über", "ab", "o b", "42", " ", "é", "日", "(", "x" * 50, "foo bar", "ü", "{", "-e", "k",
    "\t", "foo\nbar", "\r", "S", "\\",
]  # fmt: skip
REGEX = [
    "foo", "fo+", "^foo", "foo$", "^foo$", "^$", "[^;]$", r"\w+", r"\W", r"\d+", r"\s$", "a.b", "a.*b", ".",
    "(foo|bar)$", r"^\s*$", "x{3,}", "[a-c]+", r"\S+\s\S+", "é", "(?i)über", "[[:alpha:]]+", "^.{3}$", r"foo\n",
    r"o\nb", r"\{", "a{", "{", "foo{}", "[^a-z]", "ab?c*", "(a|b)*$", r"\.", "^[^#]", "(?i)k", r"\x41", r"\p{Lu}",
    "$", "^", "x*", "(?s)a.b", r"[^\n]", r"foo\s+bar", r"[\w-]+", r"[\d.]+$", "(", "[", "*", r"\S$", r"(?m)^b",
    r"[\s\S]b", r"x{,2}y?",
]  # fmt: skip
GLOBS = [
    "**/*", "*", "*.py", "**/*.py", "src/**", "src/*", "*/foo*", "{a,b}/**", "*.{py,log}", "**/a/**", "a/**/b",
    "[a-f]*", "?", "foo.py", "src/foo.py", "**/.x.py", ".hid/**", "**/*.*", "!(a)", "*a*", "**/b/*", "./*", "über*",
    "*.p?", r"*\**", "**/src/**/*.py", "{src,lib}/*.py", "**/foo*/**", "[!a]*", "\\{c\\}", "{foo,{bar,x}}.*",
]  # fmt: skip
ENDS = ["\n", "\n", "\r\n"]


def content(chance: random.Random) -> bytes:
    """A file's, in one of the encodings that files have."""
    end = chance.choice(ENDS)
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(0, 5))) for _ in range(chance.randint(0, 8))]
    text = end.join(lines) + chance.choice([end, ""])
    ways = [
        *[text.encode] * 8, lambda: text.encode("latin-1", "replace"), lambda: text.encode() + b"\0" + text.encode(),
        lambda: text.encode("utf-16"), lambda: text.encode("utf-8-sig"), lambda: b"\xfe\xff" + text.encode("utf-16-be"),
    ]  # fmt: skip
    return chance.choice(ways)()


def plant(chance: random.Random, folder: Path, depth: int = 0) -> None:
    """A tree with files, links and rules."""
    for name in chance.sample(NAMES, chance.randint(1, 7)):
        kind = chance.random()
        if kind < 0.4 and depth < 3:
            (folder / name).mkdir()
            plant(chance, folder / name, depth + 1)
        elif kind < 0.45:
            (folder / name).symlink_to(chance.choice(["..", "a", "/etc/passwd", "foo.py", "src"]))
        elif kind < 0.47:
            os.mkfifo(folder / name)
        else:
            (folder / name).write_bytes(content(chance))
    if chance.random() < 0.5:
        rules = chance.choice(ENDS).join([*chance.choices(RULES, k=chance.randint(1, 5)), ""])
        (folder / ".gitignore").write_bytes(rules.encode())


def differences(seed: int, questions: int = 3) -> Iterator[str]:
    """What the two ways tell differently of one tree."""
    chance = random.Random(seed)
    with TemporaryDirectory(prefix="surehand-") as root:
        plant(chance, Path(root))
        space = Workspace(root)
        for _ in range(questions):
            where = _somewhere(chance, space)
            if where is not None:
                yield from _listed(where, seed)
                yield from _found(chance, where, seed)
        space.close()


def _somewhere(chance: random.Random, space: Workspace) -> SearchScope | None:
    folders = [os.path.relpath(folder, space.root) for folder, _, _ in os.walk(space.root)]
    path = chance.choice(folders) if chance.random() < 0.4 else "."
    try:
        where = build_search_scope(space, path, chance.choice(GLOBS), lambda: False)
    except ToolError:
        return None
    return None if where.is_empty else where


def _listed(where: SearchScope, seed: int) -> Iterator[str]:
    one, other = (way(where, 1000) for way in (newest_by_ripgrep, newest_by_walking))
    if one != other:
        yield f"{seed}: {where.glob.pattern!r} in {where.base_path.parts}\n  {one}\n  {other}"


def _found(chance: random.Random, where: SearchScope, seed: int) -> Iterator[str]:
    regex, case = chance.random() < 0.6, chance.random() < 0.7
    needle = SearchPattern(chance.choice(REGEX if regex else PLAIN), regex, case, regex and chance.random() < 0.15)
    want = ResultFormat(chance.choice(["content", "content", "files", "count"]), 10_000, chance.choice([0, 0, 1, 3]))
    one, other = (_answer(way, where, needle, want) for way in (ripgrep_search, python_search))
    if one != other:
        yield f"{seed}: {needle} {want} {where.glob.pattern!r} in {where.base_path.parts}\n  {one}\n  {other}"


def _answer(way: Any, where: SearchScope, needle: SearchPattern, want: ResultFormat) -> Any:
    try:
        return asdict(way.search(where, needle, want))
    except ToolError as error:
        return error.code


def main() -> None:
    """As many trees as asked for."""
    rounds, first = (int(given) for given in (*sys.argv[1:3], *("100", "0")[len(sys.argv) - 1 :]))
    different = 0
    for seed in range(first, first + rounds):
        for told in differences(seed):
            different += 1
            print(told[:3000])
    print(f"{rounds:,} trees, {different} differences")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
