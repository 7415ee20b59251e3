"""Named queries: the SQL of the tables, read once from `sql/queries/*.sql`.

A file holds queries that begin with `-- name: <query>`, and fragments that begin with `-- fragment: <name>` and are
inserted where a later text of the same file says `{{name}}`. Comment lines and line breaks are for the reader: the text
of a query is one line, so that each statement is prepared and cached once however it is laid out.
"""

from __future__ import annotations

import re
from importlib.resources import files

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
# Two braces, because one pair is a word that each database replaces by its own SQL.
_INSERTION = re.compile(r"\{\{(\w+)\}\}")


class Queries(dict[str, str]):
    """The queries of one file by name; a missing name is an error that says which file lacks it."""

    def __init__(self, file_name: str, queries: dict[str, str]) -> None:
        super().__init__(queries)
        self._file_name = file_name

    def __missing__(self, name: str) -> str:
        raise LookupError(f"sql/queries/{self._file_name} has no query named {name!r}.")


def load_queries(table: str) -> Queries:
    """Read the queries of a table from its `.sql` file."""
    file_name = f"{table}.sql"
    text = files("surehand.store").joinpath("sql", "queries", file_name).read_text(encoding="utf-8")
    return parse_queries(file_name, text)


def parse_queries(file_name: str, text: str) -> Queries:
    """Split a file into its queries, with fragments inserted."""
    _, *parts = _HEADER.split(text)
    fragments: dict[str, str] = {}
    queries: dict[str, str] = {}
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if name in fragments or name in queries:
            raise LookupError(f"sql/queries/{file_name} defines {name!r} twice.")
        sql = _insert_fragments(_to_one_line(body), fragments, f"{name!r} in sql/queries/{file_name}")
        (queries if kind == "name" else fragments)[name] = sql
    return Queries(file_name, queries)


def _to_one_line(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return " ".join(" ".join(lines).split())


def _insert_fragments(sql: str, fragments: dict[str, str], where: str) -> str:
    for name in _INSERTION.findall(sql):
        if name not in fragments:
            raise LookupError(f"{where} uses the fragment {name!r}, which is not defined above it.")
        sql = sql.replace(f"{{{{{name}}}}}", fragments[name])
    return sql
