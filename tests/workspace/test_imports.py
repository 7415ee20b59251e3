"""What tools write is never imported: each attack runs in a program of its own, as a reader would start it."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from surehand.workspace import import_guard
from tests.requirements import needs

pytestmark = pytest.mark.timeout(60)  # each test starts an interpreter
PAYLOAD = "open('ATTACKED', 'w').close()\n"
PROGRAM = """\
import asyncio, importlib, logging, sys
from pathlib import Path

from surehand import Runtime, files, shell, tool

logging.basicConfig(level=logging.WARNING, format="%(message)s")
PAYLOAD = {payload!r}


@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b


async def attack(runtime):
{attack}


async def main():
    async with Runtime(add, files("."), shell(".")) as runtime:
        await attack(runtime)
    assert not Path("ATTACKED").exists()


asyncio.run(main())
print("held")
"""


def run_program(folder: Path, attack: str, *, options: tuple[str, ...] = ()) -> str:
    """Run the attack in `python agent.py`, with its folder as workspace; returns what the program printed."""
    body = "\n".join(f"    {line}" for line in dedent(attack).strip().splitlines())
    (folder / "agent.py").write_text(PROGRAM.format(payload=PAYLOAD, attack=body))
    command = [sys.executable, *options, "agent.py"]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert finished.stdout.endswith("held\n"), finished.stdout + finished.stderr
    assert not (folder / "ATTACKED").exists()
    return finished.stdout + finished.stderr


def names_of_late_modules() -> list[str]:
    return ["json_repair", "jsonschema_rs", "re2", "sqlite3", "idna", "httpx2", "graphlib", "uvloop", "sitecustomize"]


@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py", "{}.pyc", "{}.so", "{}.cpython-311-x86_64-linux-gnu.so"])
def test_no_file_tool_writes_a_file_that_would_be_imported_in_place_of_a_module(tmp_path: Path, form: str) -> None:
    paths = [form.format(name) for name in names_of_late_modules()]
    run_program(
        tmp_path,
        f"""
        for path in {paths!r}:
            outcome = await runtime.call("write", {{"file_path": path, "content": PAYLOAD}})
            assert outcome.code == "denied", (path, outcome)
            assert not Path(path).parent.is_relative_to(".") or not Path(path).exists()
        await runtime.call("write", {{"file_path": "notes.py", "content": PAYLOAD}})
        outcome = await runtime.call("move_file", {{"from": "notes.py", "to": "json_repair.py"}})
        assert outcome.code == "denied"
        """,
    )


def test_a_folder_cannot_be_moved_to_the_name_of_a_module(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        assert (await runtime.call("write", {"file_path": "mine/__init__.py", "content": PAYLOAD})).ok
        assert (await runtime.call("move_file", {"from": "mine", "to": "json_repair"})).code == "denied"
        """,
    )


def test_other_names_can_be_written(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        for path in ("hello.py", "html/index.html", "src/json.py", "json.txt", "test/data.json"):
            outcome = await runtime.call("write", {"file_path": path, "content": "x = 1"})
            assert outcome.ok, (path, outcome)
        """,
    )


@needs("bubblewrap")
@pytest.mark.parametrize(
    "command",
    [
        "printf '%s' \"$P\" > json_repair.py",
        "mkdir json_repair && printf '%s' \"$P\" > json_repair/__init__.py",
        "printf '%s' \"$P\" > x.txt && ln -s x.txt json_repair.py",
        "mkdir y && printf '%s' \"$P\" > y/__init__.py && mv y json_repair",
    ],
)
def test_what_a_command_writes_is_not_imported_and_the_model_is_told(tmp_path: Path, command: str) -> None:
    run_program(
        tmp_path,
        f"""
        command = "P=" + repr(PAYLOAD.strip().replace("'", '"')) + "; " + {command!r}
        outcome = await runtime.call("bash", {{"command": command}})
        assert outcome.code == "denied" and ".refused" in outcome.text, outcome
        assert (await runtime.call("add", "{{a: 1, b: 2,}}")).data == 3
        """,
    )
    assert not (tmp_path / "json_repair.py").exists()
    assert not (tmp_path / "json_repair").exists()


@needs("bubblewrap")
def test_a_background_command_is_ended_when_it_writes_a_module(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        command = "echo 'raise SystemExit' > graphlib.py; sleep 100"
        started = await runtime.call("bash", {"command": command, "background": True})
        looked = await runtime.call("bash_output", {"id": started.data["id"], "wait": 20000})
        assert not looked.data["running"] and "graphlib.py" in looked.text, looked
        import graphlib
        assert "ATTACKED" not in vars(graphlib)
        """,
    )


def test_a_file_that_another_process_puts_there_is_not_imported(tmp_path: Path) -> None:
    """An MCP server may write into the folder as well: no file tool and no sandbox stands in its way."""
    said = run_program(
        tmp_path,
        """
        for name in ("json_repair", "graphlib", "zoneinfo", "uvloop", "brand_new"):
            Path(name + ".py").write_text(PAYLOAD)
        importlib.invalidate_caches()
        assert (await runtime.call("add", "{a: 1, b: 2,}")).data == 3
        import graphlib, zoneinfo
        for name in ("brand_new",):
            try:
                importlib.import_module(name)
            except ImportError:
                continue
            raise AssertionError(name)
        """,
    )
    assert "brand_new is not imported" in said


def test_a_namespace_package_and_a_module_in_it_are_not_imported(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        Path("plugin").mkdir()
        Path("plugin/run.py").write_text(PAYLOAD)
        importlib.invalidate_caches()
        for name in ("plugin.run", "plugin"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue
            raise AssertionError(name)
        """,
    )


def test_modules_of_the_program_that_are_unchanged_can_still_be_imported(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/late.py").write_text("value = 7\n")
    (tmp_path / "later.py").write_text("value = 8\n")
    run_program(
        tmp_path,
        """
        assert (await runtime.call("write", {"file_path": "mine/notes.txt", "content": "x"})).ok
        import later, mine.late
        assert (mine.late.value, later.value) == (7, 8)
        """,
    )


def test_a_changed_module_of_the_program_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text("value = 8\n")
    run_program(
        tmp_path,
        """
        assert (await runtime.call("write", {"file_path": "later.py", "content": PAYLOAD})).ok
        try:
            import later
        except ImportError:
            pass
        """,
    )


def test_bytecode_beside_an_unchanged_module_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text("value = 8\n")
    run_program(
        tmp_path,
        """
        import importlib.util, marshal, struct
        source = Path("later.py").stat()
        cached = Path(importlib.util.cache_from_source(str(Path("later.py").resolve())))
        code = marshal.dumps(compile(PAYLOAD, "later.py", "exec"))
        header = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(source.st_mtime), source.st_size)
        cached.parent.mkdir(exist_ok=True)
        cached.write_bytes(header + code)
        outcome = await runtime.call("write", {"file_path": str(cached.relative_to(Path.cwd())), "content": "x"})
        assert outcome.code == "denied"
        import later
        assert later.value == 8
        """,
    )


def test_the_files_that_the_program_has_loaded_cannot_be_changed(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("value = 1\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/unused.py").write_text("")
    run_program(
        tmp_path,
        """
        import helper, pack
        for path in ("agent.py", "helper.py", "pack/__init__.py", "pack/unused.py", "pack/new.py"):
            outcome = await runtime.call("write", {"file_path": path, "content": PAYLOAD})
            assert outcome.code == "denied", (path, outcome)
        assert (await runtime.call("move_file", {"from": "pack", "to": "other"})).code == "denied"
        """,
    )


@needs("bubblewrap")
def test_no_command_changes_the_files_that_the_program_has_loaded(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("value = 1\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    run_program(
        tmp_path,
        """
        import helper, pack
        for command in (
            "echo x > agent.py", "echo x > helper.py", "mv helper.py y.py", "echo x > pack/__init__.py",
            "echo x > pack/new.py", "mv pack other", "echo x > __pycache__/helper.cpython-311.pyc",
        ):
            assert not (await runtime.call("bash", {"command": command})).ok, command
        assert (await runtime.call("bash", {"command": "echo fine > notes.txt"})).ok
        """,
    )


def test_the_program_says_at_start_which_folder_is_meant(tmp_path: Path) -> None:
    said = run_program(tmp_path, "pass")

    assert f"Tools may write to {os.path.realpath(tmp_path)}" in said


def test_a_program_with_a_safe_path_needs_no_warning(tmp_path: Path) -> None:
    said = run_program(
        tmp_path,
        """
        assert (await runtime.call("write", {"file_path": "json_repair.py", "content": PAYLOAD})).ok
        assert (await runtime.call("add", "{a: 1, b: 2,}")).data == 3
        """,
        options=("-P",),
    )
    assert "Tools may write" not in said


CONFIGURATION = "tools: [mine.py]\nbuiltin: [files]\npolicy: [{decision: allow}]\n"
TOOLS = '''\
from surehand import tool
from beside import greeting


@tool
def hi(count: int) -> str:
    """Hi."""
    return greeting
'''


def test_the_folder_of_a_configuration_comes_last_and_its_files_are_protected(tmp_path: Path) -> None:
    (tmp_path / "surehand.yaml").write_text(CONFIGURATION)
    (tmp_path / "mine.py").write_text(TOOLS)
    (tmp_path / "beside.py").write_text("greeting = 'hello'\n")
    program = f"""
import asyncio, sys
from pathlib import Path
from surehand.assemble import assemble
from surehand.config.config import read_config

async def main():
    async with assemble(read_config("surehand.yaml")) as runtime:
        assert sys.path[-1] == str(Path.cwd()), sys.path
        for path in ("json_repair.py", "graphlib.py", "beside.py", "surehand.lock", "surehand.json"):
            outcome = await runtime.call("write", {{"file_path": path, "content": {PAYLOAD!r}}})
            assert outcome.code == "denied", (path, outcome)
        Path("json_repair.py").write_text({PAYLOAD!r})
        assert (await runtime.call("hi", "{{count: 1,}}")).data == "hello"

asyncio.run(main())
"""
    command = [sys.executable, "-P", "-c", program]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    assert not (tmp_path / "ATTACKED").exists()


def test_a_clock_that_is_set_back_lets_nothing_in(tmp_path: Path, monkeypatch) -> None:
    clock = import_guard._file_clock
    monkeypatch.setattr(import_guard, "_file_clock", lambda: clock() + 3600 * 10**9)
    period = import_guard.WritablePeriod(clock() + 3600 * 10**9)
    monkeypatch.setattr(import_guard, "_file_clock", clock)
    (tmp_path / "late.py").write_text("")

    assert period.contains((tmp_path / "late.py").stat().st_ctime_ns)
    assert not period.contains(clock() - 10**9)
