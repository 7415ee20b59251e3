"""MCP servers that are started beside a workspace: what they run, and where, does not come from a tool."""

import json
import sys
from pathlib import Path

import pytest

from surehand import Runtime, files, mcp, shell
from surehand.assemble import assemble
from surehand.config.config import read_config
from tests.requirements import needs

pytestmark = pytest.mark.timeout(60)
SERVER = """\
import json, os, pathlib, sys
pathlib.Path({report!r}).write_text(json.dumps([os.getcwd(), sys.path[0], sys.argv[1:]]))
"""


def write_server(folder: Path, report: Path, first_line: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "server.py").write_text(first_line + SERVER.format(report=str(report)))


async def start(runtime: Runtime, report: Path) -> list:
    """Let the server start, which only reports where it runs, and ends."""
    await runtime.call("local__anything", {})
    return json.loads(report.read_text())


async def test_a_server_starts_outside_the_workspace_and_with_a_safe_path(tmp_path: Path, monkeypatch) -> None:
    project, report = tmp_path / "project", tmp_path / "report"
    write_server(project, report)
    (project / "data").mkdir()
    monkeypatch.chdir(project)
    server = mcp.stdio(sys.executable, "server.py", "--data=./data", "data", "word", namespace="local")
    async with Runtime(files("."), server) as runtime:
        folder, first_entry, arguments = await start(runtime, report)

    assert not Path(folder).is_relative_to(project)
    assert first_entry != str(project)
    assert arguments == [f"--data={project / 'data'}", str(project / "data"), "word"]


async def test_a_server_starts_where_it_was_told_to(tmp_path: Path) -> None:
    project, report = tmp_path / "project", tmp_path / "report"
    write_server(project, report)
    server = mcp.stdio(sys.executable, "server.py", "data", cwd=project, namespace="local")
    async with Runtime(files(project), server) as runtime:
        folder, _, arguments = await start(runtime, report)

    assert (folder, arguments) == (str(project), ["data"])


async def test_without_a_writable_workspace_a_server_starts_as_before(tmp_path: Path, monkeypatch) -> None:
    project, report = tmp_path / "project", tmp_path / "report"
    write_server(project, report)
    monkeypatch.chdir(project)
    async with Runtime(mcp.stdio(sys.executable, "server.py", "x", namespace="local")) as runtime:
        assert await start(runtime, report) == [str(project), str(project), ["x"]]


CONFIGURATION = """\
workspace: .
builtin: [files, shell]
policy: [{{decision: allow}}]
mcp_servers:
  script: {{command: {python}, args: [servers/server.py]}}
  module: {{command: {python}, args: [-m, pack.run]}}
"""


@needs("bubblewrap")
async def test_tools_cannot_change_what_a_server_runs_or_will_import(tmp_path: Path) -> None:
    write_server(tmp_path / "servers", tmp_path / "report", "def late():\n    import neighbour\n")
    (tmp_path / "servers/neighbour.py").write_text("import further\n")
    (tmp_path / "servers/further.py").write_text("")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/run.py").write_text("")
    (tmp_path / "surehand.yaml").write_text(CONFIGURATION.format(python=sys.executable))
    protected = ("servers/server.py", "servers/neighbour.py", "servers/further.py", "pack/run.py", "pack/new.py")
    async with assemble(read_config(tmp_path / "surehand.yaml")) as runtime:
        for path in (*protected, "surehand.lock", "surehand.json"):
            written = await runtime.call("write", {"file_path": path, "content": "x"})
            assert written.code == "denied", path
            assert not (await runtime.call("bash", {"command": f"echo x > {path}"})).ok, path
        assert not (await runtime.call("bash", {"command": "mv servers other"})).ok
        assert (await runtime.call("write", {"file_path": "servers/notes.txt", "content": "x"})).ok
    assert not (tmp_path / "surehand.lock").exists()


@needs("bubblewrap")
async def test_tools_cannot_change_a_server_that_code_names(tmp_path: Path) -> None:
    write_server(tmp_path / "servers", tmp_path / "report")
    server = mcp.stdio(sys.executable, str(tmp_path / "servers/server.py"), namespace="local")
    async with Runtime(files(tmp_path), shell(tmp_path), server) as runtime:
        written = await runtime.call("write", {"file_path": "servers/server.py", "content": "x"})
        assert written.code == "denied"
        assert not (await runtime.call("bash", {"command": "echo x > servers/server.py"})).ok


@needs("bubblewrap")
@pytest.mark.parametrize(
    "command", [("{python}", "servers/server.py"), ("/usr/bin/env", "python3", "servers/server.py")]
)
@pytest.mark.parametrize("has_neighbour", [True, False])
async def test_tools_cannot_add_a_module_that_a_server_would_import(
    tmp_path: Path, monkeypatch, command: tuple[str, ...], has_neighbour: bool
) -> None:
    neighbour = "import neighbour\n" if has_neighbour else ""
    write_server(
        tmp_path / "servers", tmp_path / "report", f"{neighbour}try:\n    import speedups\nexcept ImportError: pass\n"
    )
    (tmp_path / "servers/neighbour.py").write_text("try:\n    import further\nexcept ImportError: pass\n")
    monkeypatch.chdir(tmp_path)
    argv = [word.format(python=sys.executable) for word in command]
    async with Runtime(files("."), shell("."), mcp.stdio(*argv, namespace="local")) as runtime:
        for name in ("json", "colorsys", "pydantic", "speedups", *(["further"] if has_neighbour else [])):
            for path in (f"servers/{name}.py", f"servers/{name}/__init__.py"):
                written = await runtime.call("write", {"file_path": path, "content": "x"})
                assert written.code == "denied", path
                ran = await runtime.call("bash", {"command": f"mkdir -p $(dirname {path}); echo x > {path}"})
                assert ran.code == "denied", path
        assert (await runtime.call("write", {"file_path": "servers/notes.py", "content": "x"})).ok


async def test_a_file_beside_a_server_does_not_turn_off_its_safe_path(tmp_path: Path, monkeypatch) -> None:
    project, report = tmp_path / "project", tmp_path / "report"
    write_server(project, report)
    monkeypatch.chdir(project)
    async with Runtime(files("."), mcp.stdio(sys.executable, "server.py", namespace="local")) as runtime:
        (project / "json.py").write_text("raise SystemExit(9)")  # as if it had got there by another way
        _, first_entry, _ = await start(runtime, report)

    assert first_entry != str(project)


@needs("bubblewrap")
@pytest.mark.parametrize("words", [("servers/start",), ("-X", "utf8", "servers/start"), ("servers",)])
async def test_a_script_of_any_name_is_protected(tmp_path: Path, monkeypatch, words: tuple[str, ...]) -> None:
    write_server(tmp_path / "servers", tmp_path / "report")
    name = "__main__.py" if words == ("servers",) else "start"
    (tmp_path / "servers/server.py").rename(tmp_path / "servers" / name)
    monkeypatch.chdir(tmp_path)
    async with Runtime(files("."), shell("."), mcp.stdio(sys.executable, *words, namespace="local")) as runtime:
        written = await runtime.call("write", {"file_path": f"servers/{name}", "content": "x"})
        assert written.code == "denied"
        assert not (await runtime.call("bash", {"command": f"echo x > servers/{name}"})).ok


def test_a_program_on_the_command_line_itself_is_no_file() -> None:
    mcp.stdio(sys.executable, "-c", "import sys\n" * 1000, namespace="local")
