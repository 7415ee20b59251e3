"""Named queries: how the `.sql` files are read, and that Python and the files agree on the names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import surehand.store
from surehand.store.queries import load_queries, parse_queries

STORE = Path(surehand.store.__file__).parent
FILES = sorted(path.stem for path in (STORE / "sql" / "queries").glob("*.sql"))


def users_of(table: str) -> str:
    """The source of every module that loads the queries of a table."""
    sources = (path.read_text(encoding="utf-8") for path in STORE.rglob("*.py"))
    return "\n".join(source for source in sources if f'load_queries("{table}")' in source)


def test_comments_and_line_breaks_are_not_part_of_a_query():
    queries = parse_queries(
        "t.sql", "-- A file.\n\n-- name: find\n-- Finds it.\nSELECT 1\n    -- one row\n    LIMIT 1\n"
    )

    assert queries == {"find": "SELECT 1 LIMIT 1"}


def test_fragments_are_inserted_and_are_no_queries():
    queries = parse_queries("t.sql", "-- fragment: old\nat < {now}\n-- name: drop\nDELETE FROM t WHERE {{old}}\n")

    assert queries == {"drop": "DELETE FROM t WHERE at < {now}"}


def test_a_missing_query_is_an_error_that_names_file_and_query():
    with pytest.raises(LookupError, match=r"sql/queries/t\.sql has no query named 'absent'\."):
        parse_queries("t.sql", "")["absent"]


def test_a_missing_fragment_is_an_error_that_names_file_and_query():
    with pytest.raises(LookupError, match=r"'find' in sql/queries/t\.sql uses the fragment 'absent', which is not"):
        parse_queries("t.sql", "-- name: find\nSELECT {{absent}}\n")


def test_a_name_can_be_used_once_in_a_file():
    with pytest.raises(LookupError, match=r"sql/queries/t\.sql defines 'find' twice\."):
        parse_queries("t.sql", "-- name: find\nSELECT 1\n-- name: find\nSELECT 2\n")


@pytest.mark.parametrize("table", FILES)
def test_every_query_is_used_and_every_used_query_exists(table: str):
    source = users_of(table)
    queries = load_queries(table)

    assert {name for name in queries if f'"{name}"' not in source} == set()
    assert set(re.findall(r'_SQL\["(\w+)"\]', source)) <= queries.keys() | other_names(table, source)


def other_names(table: str, source: str) -> set[str]:
    """Queries of other tables that a module of this source loads too."""
    others = set(re.findall(r'load_queries\("(\w+)"\)', source)) - {table}
    return {name for other in others for name in load_queries(other)}
