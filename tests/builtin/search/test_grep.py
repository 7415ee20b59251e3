"""Finding text in files: plain text and regular expressions, lines, files and counts."""

import os
from pathlib import Path

import pytest

from surehand import Workspace
from surehand.builtin.search import search_pattern
from surehand.builtin.search.search_scope import MAX_FILE_BYTES
from surehand.core.extras import install_command
from tests.builtin.search_runtime import (
    approve_everything,
    open_search,
    search_done,
    search_failed,
    with_both_engines,
    write_tree,
)
from tests.requirements import needs

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

TREE = {
    "a.py": "import os\n\ndef main(x):\n    return x + 1\n",
    "src/b.py": "# main\nMAIN = 1\n",
    "src/c.ts": "function main() {\n}\n",
    "notes.md": "nothing here\n",
}


@with_both_engines
async def test_plain_text_is_found_line_by_line(tmp_path: Path, engine: str) -> None:
    matches = await search_done(write_tree(tmp_path, TREE), engine, "grep", pattern="main(", literal=True)

    assert matches.text == "a.py:3: def main(x):\nsrc/c.ts:1: function main() {"
    assert matches.metadata == {"pattern": "main(", "filesSearched": 4, "matchCount": 2, "truncated": False}


@with_both_engines
async def test_grep_takes_regular_expressions_by_default(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        lines = await call("grep", pattern=r"^(def|function) \w+\(")
        data = await call("grep_files", pattern=r"^(def|function) \w+\(")
        literal = await call("grep_files", pattern="main(", literal=True)

    assert lines.text == "a.py:3: def main(x):\nsrc/c.ts:1: function main() {"
    assert data.data["totalMatches"] == literal.data["totalMatches"] == 2


@with_both_engines
@pytest.mark.parametrize(
    ("pattern", "literal", "hint"),
    [
        ("main(x)", False, "As plain text it matches 1 line: set literal=true."),
        ("no(x)", False, "As plain text (literal=true) it matches nothing either."),
        (r"no\(\w+", False, ""),
        ("maim", False, ""),
        ("no.x", False, ""),
        (r"main\(\w*\)", True, "As a regular expression it matches 2 lines: leave literal out."),
        (
            r"no.*\d",
            True,
            "It looks like a regular expression, and was taken as plain text because literal=true was set.",
        ),
        ("no(", True, ""),
    ],
)
async def test_a_pattern_without_matches_that_looks_like_the_other_kind_says_so(
    tmp_path: Path, engine: str, pattern: str, literal: bool, hint: str
) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        lines = await call("grep", pattern=pattern, literal=literal)
        data = await call("grep_files", pattern=pattern, literal=literal)

    assert lines.text == f"No matches for '{pattern}' in . (4 files searched). {hint}".rstrip()
    assert data.data.get("hint", "") == hint


@with_both_engines
async def test_an_invalid_regular_expression_suggests_plain_text(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        found = await call("grep", pattern="main(")
        missing = await call("grep_files", pattern="maim(")

    assert "is not valid" in found.message
    assert found.message.endswith("set literal=true to search for it as plain text: that matches 2 lines.")
    assert missing.message.endswith("set literal=true to search for it as plain text.")


@with_both_engines
async def test_nothing_found_says_so(tmp_path: Path, engine: str) -> None:
    matches = await search_done(write_tree(tmp_path, TREE), engine, "grep", pattern="maim", include="*.py")

    assert matches.text == "No matches for 'maim' in . (2 files searched)."
    assert matches.data == {"matches": [], "totalMatches": 0, "truncated": False}


@with_both_engines
async def test_path_and_include_narrow_the_search(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        lines = {
            "case": await call("grep", pattern="MAIN", case_sensitive=False, path="src"),
            "regex": await call("grep", pattern=r"^def \w+\("),
            "include": await call("grep", pattern="main", include="src/*.py"),
            "braces": await call("grep", pattern="main", include="*.{ts,md}"),
            "file": await call("grep", pattern="main", path="src/b.py", include="*.ts"),
            "absolute": await call("grep", pattern="main", path=f"{tmp_path}/src", include="*.py"),
        }

    assert {name: outcome.text for name, outcome in lines.items()} == {
        "case": "src/b.py:1: # main\nsrc/b.py:2: MAIN = 1\nsrc/c.ts:1: function main() {",
        "regex": "a.py:3: def main(x):",
        "include": "src/b.py:1: # main",
        "braces": "src/c.ts:1: function main() {",
        "file": "src/b.py:1: # main",
        "absolute": "src/b.py:1: # main",
    }


@with_both_engines
async def test_lines_around_a_match_are_marked(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"a.txt": "".join(f"line {number}\n" for number in range(1, 13)), "b.txt": "line 2\n"})

    matches = await search_done(tmp_path, engine, "grep", pattern=r"line (2|4|9)$", context=1)

    assert matches.text.splitlines() == [
        "a.txt-1- line 1",
        "a.txt:2: line 2",
        "a.txt-3- line 3",
        "a.txt:4: line 4",
        "a.txt-5- line 5",
        "--",
        "a.txt-8- line 8",
        "a.txt:9: line 9",
        "a.txt-10- line 10",
        "--",
        "b.txt:1: line 2",
    ]


@with_both_engines
async def test_the_output_can_be_file_names_or_counts(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, {**TREE, "a.txt": "main main\nmain\n"}), engine) as call:
        files = await call("grep", pattern="main", output_mode="files")
        counts = await call("grep", pattern="main", output_mode="count")

    assert files.text == "a.py\na.txt\nsrc/b.py\nsrc/c.ts"
    assert counts.text == "a.py: 1\na.txt: 2\nsrc/b.py: 1\nsrc/c.ts: 1"
    assert counts.metadata["matchCount"] == 5


@with_both_engines
async def test_grep_files_takes_a_regex_and_returns_data(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, TREE), engine) as call:
        matches = await call("grep_files", pattern=r"m\w+\(", include="*.{py,ts}", context_lines=1)
        files = await call("grep_files", pattern="MAIN", case_insensitive=True, output_mode="files_with_matches")
        counts = await call("grep_files", pattern="main", output_mode="count", max_results=1)

    assert matches.data["totalMatches"] == 2
    assert matches.data["matches"][0] == {
        "file": "a.py",
        "line": "def main(x):",
        "lineNumber": 3,
        "match": "main(",
        "before": [""],
        "after": ["    return x + 1"],
    }
    assert files.data == {"files": ["a.py", "src/b.py", "src/c.ts"], "totalFiles": 3, "truncated": False}
    assert counts.data == {"counts": [{"file": "a.py", "count": 1}], "totalMatches": 3, "truncated": True}


@with_both_engines
async def test_matches_over_several_lines(tmp_path: Path, engine: str) -> None:
    write_tree(
        tmp_path, {"unix.txt": "one {\n  two\n}\nthree\n", "dos.txt": "one {\r\n  two\r\n}\r\n", "no.txt": "one {"}
    )

    async with open_search(tmp_path, engine) as call:
        regex = await call("grep_files", pattern=r"\{.*?\}", multiline=True)
        escaped = await call("grep_files", pattern=r"\{\n\s+two$")
        plain = await call("grep", pattern="{\n  two\n", literal=True)

    for matches in (regex, escaped):
        assert [(match["file"], match["lineNumber"]) for match in matches.data["matches"]] == [
            ("dos.txt", 1), ("unix.txt", 1)
        ]  # fmt: skip
    assert regex.data["matches"][0]["match"] == r"{\n  two\n}"
    assert "unix.txt:1: one {\nunix.txt-2-   two" in plain.text


@with_both_engines
async def test_a_search_ends_when_enough_is_found(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {f"{number}.txt": "word\n" * 100 for number in range(30)})

    async with open_search(tmp_path, engine) as call:
        some = await call("grep", pattern="word")
        most = await call("grep", pattern="word", max_matches=100_000)
        files = await call("grep", pattern="word", output_mode="files", max_matches=7)

    assert (some.metadata["matchCount"], some.metadata["truncated"]) == (50, True)
    assert len([line for line in some.text.splitlines() if ": word" in line]) == 50
    assert "50 matches shown, and there are more" in some.text
    assert most.metadata["matchCount"] == 200
    assert len(files.data["files"]) == 7
    assert files.data["truncated"]


@with_both_engines
async def test_exactly_the_limit_is_not_truncated(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"a.txt": "word\n" * 3, "b.txt": "word\n" * 2})

    matches = await search_done(tmp_path, engine, "grep", pattern="word", max_matches=5)

    assert (matches.metadata["matchCount"], matches.metadata["truncated"]) == (5, False)


PLAIN = ["-rf", "--files", "--", "$(id)", "'; id #", "a\\b", '"', "`", "{0}", "*", "\u2028"]


@with_both_engines
async def test_plain_text_is_not_a_regex(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"a.txt": "".join(f"before {text} behind\n" for text in PLAIN)})

    async with open_search(tmp_path, engine) as call:
        for number, text in enumerate(PLAIN, 1):
            plain = await call("grep", pattern=f" {text} ", literal=True)
            lower = await call("grep", pattern=f" {text.upper()} ", literal=True, case_sensitive=False)

            assert [match["lineNumber"] for match in plain.data["matches"]] == [number], text
            assert lower.data == plain.data, text


@with_both_engines
async def test_regular_expressions_support_unicode(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"a.txt": "Straße 42\nÜBER uns\n日本語\nnaïve\u00a0x\n٣\n"})

    async with open_search(tmp_path, engine) as call:
        found = {
            pattern: [match["lineNumber"] for match in (await call("grep_files", pattern=pattern)).data["matches"]]
            for pattern in (r"^\w+ \d+$", "(?i)über", r"^\w{3}$", r"\w\s\w$", r"^\d$", r"^[\w]+$", r"^\D\S")
        }

    assert list(found.values()) == [[1], [2], [3], [4], [5], [3, 5], [1, 2, 3, 4]]


@with_both_engines
async def test_braces_that_are_no_repetition_are_literal(tmp_path: Path, engine: str) -> None:
    async with open_search(write_tree(tmp_path, {"a.txt": "main() { interface{} xx a{ ${x} }\n"}), engine) as call:
        for pattern in (r"main\(\) {", "{", "}", "interface{}", "x{,2}", "a{1,2}{", r"\${x}", "[{]x"):
            assert (await call("grep", pattern=pattern)).metadata["matchCount"] == 1, pattern


REFUSED = [
    ({"pattern": "(a"}, "invalid_arguments", "is not valid"),
    ({"pattern": "*"}, "invalid_arguments", "is not valid"),
    ({"pattern": "(?=a)"}, "invalid_arguments", "is not valid"),
    ({"pattern": r"(a)\1"}, "invalid_arguments", ""),
    ({"pattern": "[z-a]"}, "invalid_arguments", "is not valid"),
    ({"pattern": "a\0b"}, "invalid_arguments", "NUL"),
    ({"pattern": "\ud800"}, "invalid_arguments", ""),
    ({"pattern": ""}, "invalid_arguments", ""),
    ({"pattern": "x" * 10_001}, "invalid_arguments", ""),
    ({"pattern": "x", "path": "srx"}, "not_found", "Did you mean src?"),
    ({"pattern": "x", "path": "src/b.pi"}, "not_found", "Did you mean src/b.py?"),
    ({"pattern": "x", "path": "../x"}, "denied", "contains '..'"),
    ({"pattern": "x", "path": "/etc/passwd"}, "denied", "outside the workspace"),
    ({"pattern": "x", "include": "/etc/*"}, "denied", "outside the workspace"),
    ({"pattern": "x", "include": "[a"}, "invalid_arguments", "never closed"),
    ({"pattern": "x", "context": 11}, "invalid_arguments", ""),
    ({"pattern": "x", "path": "fifo"}, "invalid_arguments", "FIFO"),
    ({"pattern": "x", "path": "binary"}, "invalid_arguments", "is binary"),
    ({"pattern": "x", "path": "monster"}, "too_large", "files of up to"),
]


@with_both_engines
async def test_a_search_that_cannot_be_made_is_explained(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {**TREE, "binary": b"x\0y", "monster": ""})
    os.mkfifo(tmp_path / "fifo")
    os.truncate(tmp_path / "monster", MAX_FILE_BYTES + 1)

    async with open_search(tmp_path, engine) as call:
        for arguments, code, says in REFUSED:
            failed = await call("grep", **arguments)

            assert failed.code == code, arguments
            assert says in failed.message
            assert len(failed.message) < 1000


@with_both_engines
async def test_sensitive_files_are_not_searched_and_do_not_change_the_results(tmp_path: Path, engine: str) -> None:
    write_tree(
        tmp_path, {"a.txt": "token\n", "server.pem": "token alpha\n", "secrets/x.txt": "token beta\n", ".env": "token"}
    )

    async with open_search(tmp_path, engine) as call:
        lines = [await call("grep", pattern=pattern) for pattern in ("token", "token alpha", "no such thing")]
        counts = await call("grep_files", pattern="token", output_mode="count")
        files = await call("grep", pattern="token", output_mode="files")
        across = await call("grep_files", pattern="token\\s", multiline=True)
        named = await call("grep", pattern="token", include="server.*")

    told = "(2 files that look like keys or credentials were not searched. Name one as the path to ask for it.)"
    assert [outcome.text.splitlines()[-1] for outcome in lines] == [told] * 3
    assert [outcome.metadata["matchCount"] for outcome in lines] == [1, 0, 0]
    assert [outcome.metadata["filesSearched"] for outcome in lines] == [1, 1, 1]
    assert counts.data == {
        "counts": [{"file": "a.txt", "count": 1}], "totalMatches": 1, "truncated": False, "leftOut": 2
    }  # fmt: skip
    assert files.data["files"] == ["a.txt"]
    assert across.data["totalMatches"] == 1
    assert "No matches" in named.text


@with_both_engines
async def test_a_person_is_asked_before_a_sensitive_file_is_searched(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"server.pem": "token\n", "secrets/a.txt": "token\n"})
    (tmp_path / "harmless").symlink_to("server.pem")

    for path in ("server.pem", "secrets"):
        async with open_search(tmp_path, engine) as call:
            waiting = await call("grep", pattern="token", path=path)
        async with open_search(tmp_path, engine, approver=approve_everything) as call:
            matches = await call("grep", pattern="token", path=path)

        assert waiting.waiting_for == "approval"
        assert "token" not in waiting.text
        assert matches.metadata["matchCount"] == 1
    assert (await search_failed(tmp_path, engine, "grep", pattern="token", path="harmless")).code == "denied"


@with_both_engines
async def test_the_workspace_decides_which_names_are_sensitive(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"server.pem": "token\n", "diary.txt": "token\n"})

    matches = await search_done(Workspace(tmp_path, sensitive=["diary*"]), engine, "grep", pattern="token")

    assert matches.text.startswith("server.pem:1: token\n")
    assert "1 file that looks" in matches.text


@with_both_engines
async def test_every_folder_of_a_workspace_can_be_searched(tmp_path: Path, engine: str) -> None:
    write_tree(tmp_path, {"main/a.txt": "word\n", "extra/b.txt": "word\n", "main_evil/c.txt": "word\n"})
    space = Workspace(tmp_path / "main", read_only=[tmp_path / "extra"])

    assert (await search_done(space, engine, "grep", pattern="word")).text == "a.txt:1: word"
    assert (await search_done(space, engine, "grep", pattern="word", path=f"{tmp_path}/extra")).text == (
        f"{tmp_path}/extra/b.txt:1: word"
    )
    assert (await search_failed(space, engine, "grep", pattern="word", path=f"{tmp_path}/main_evil")).code == "denied"


async def test_plain_text_is_found_without_any_regex_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pattern, "_import_re2", lambda: None)
    write_tree(tmp_path, {"a.txt": "Über\nuber (x)\n", "b.txt": "UBER (X)\n"})

    plain = await search_done(tmp_path, "walker", "grep", pattern="(x)", literal=True)
    lower = await search_done(tmp_path, "walker", "grep", pattern="ÜBER", case_sensitive=False)
    ascii_ = await search_done(tmp_path, "walker", "grep", pattern="uber (x)", literal=True, case_sensitive=False)
    regex = await search_failed(tmp_path, "walker", "grep", pattern="u+")
    in_file = await search_failed(tmp_path, "walker", "grep_files", pattern="u+", path="a.txt")

    assert plain.text == "a.txt:2: uber (x)"
    assert lower.text == "a.txt:1: Über"
    assert ascii_.text == "a.txt:2: uber (x)\nb.txt:1: UBER (X)"
    for failed in (regex, in_file):
        assert failed.code == "unavailable"
        assert install_command("files") in failed.message


@needs("bubblewrap")
async def test_ripgrep_alone_is_enough_for_regular_expressions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pattern, "_import_re2", lambda: None)
    write_tree(tmp_path, {"a.txt": "foo bar\n", "b.txt": "bar\n"})

    matches = await search_done(tmp_path, "ripgrep", "grep_files", pattern="fo+")
    in_file = await search_done(tmp_path, "ripgrep", "grep_files", pattern="fo+", path="a.txt")

    for outcome in (matches, in_file):
        assert outcome.data["matches"] == [{"file": "a.txt", "line": "foo bar", "lineNumber": 1, "match": "foo bar"}]
