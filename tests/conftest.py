"""Shared fixtures and hooks. Async tests run on plain asyncio, each on a loop of its own, and must end their tasks."""

import asyncio
import gc
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.temp_folders import TEMP_FOLDER_PARENT
from tests.temp_folders import tmp_path_on_disk as tmp_path_on_disk

gc.disable()  # collecting thousands of tests creates no garbage worth a collection
_finished_tests = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--remember", action="store_true", help="give every runtime a store in a file of its own")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--remember"):
        from tests.stores_on_disk import use_stores_on_disk

        use_stores_on_disk()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.markexpr == "not long":
        terminalreporter.write_line("The long tests are left out: scripts/test-long runs them.")


def pytest_collection_finish() -> None:
    gc.enable()
    gc.set_threshold(10_000, 20, 20)  # most tests leave too little garbage for a collection after each of them
    freeze()


def pytest_runtest_logfinish() -> None:
    if next(_finished_tests) % 300 == 0:
        freeze()


def freeze() -> None:
    """Exempt the collected tests and imported modules from later garbage collections, which would scan them again."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give more time to property tests, which run many examples, and to tests that start programs."""
    slow_fixtures = {"fast_command", "postgres"}.intersection(getattr(item, "fixturenames", ()))
    if (slow_fixtures or hasattr(getattr(item, "obj", None), "hypothesis")) and item.get_closest_marker(
        "timeout"
    ) is None:
        item.add_marker(pytest.mark.timeout(60))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    # A property test is async inside: hypothesis runs the inner function once per example.
    if (given := getattr(pyfuncitem.obj, "hypothesis", None)) and iscoroutinefunction(given.inner_test):
        given.inner_test = run_on_new_loop(given.inner_test)
    elif iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = run_on_new_loop(pyfuncitem.obj)


def run_on_new_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(check_no_task_is_left(test(*args, **kwargs)))

    return run


def is_sse_watcher(task: asyncio.Task[Any]) -> bool:
    """Whether this is the task that sse_starlette starts with the first event stream and keeps until the loop ends."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_name == "_shutdown_watcher" and "sse_starlette" in code.co_filename


async def check_no_task_is_left(test: Coroutine[Any, Any, None]) -> None:
    await test
    if remaining := {
        each for each in asyncio.all_tasks() if each is not asyncio.current_task() and not is_sse_watcher(each)
    }:
        pytest.fail(f"The test left tasks running: {', '.join(sorted(map(describe_task, remaining)))}.", pytrace=False)


def describe_task(task: asyncio.Task[Any]) -> str:
    return f"{task.get_name()} ({getattr(task.get_coro(), '__qualname__', task.get_coro())})"


@pytest.fixture(scope="session")
def fast_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The command that starts `surehand` as a process that has imported everything already."""
    from tests.surehand_command import start_command_server

    with start_command_server(str(tmp_path_factory.mktemp("command") / "socket")) as command:
        yield command


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server for this pytest worker, in a temporary folder, reached over its Unix socket."""
    from tests.postgres_server import start_server

    folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=TEMP_FOLDER_PARENT))
    server = start_server(folder)
    # The tests never cut the power of the machine, and waiting for the disk would take most of the time.
    server.psql("ALTER SYSTEM SET fsync = off")
    # Readers of the journal stop before the oldest open transaction, which could be one of autovacuum's.
    server.psql("ALTER SYSTEM SET autovacuum = off")
    server.psql("SELECT pg_reload_conf()")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def schemas(postgres: Any) -> Iterator[Any]:
    """Creates empty schemas on the PostgreSQL server."""
    from tests.postgres_server import Schemas

    schemas = Schemas(postgres)
    yield schemas
    schemas.close()
