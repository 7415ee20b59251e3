"""What a tool leaves in the folder of a program is not run when the program starts again, nor by what it starts."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from surehand import Runtime, files, shell
from surehand.workspace.refused_names import RefusedNames
from tests.requirements import needs
from tests.temp_folders import TEMP_FOLDER_PARENT
from tests.workspace.test_imports import PAYLOAD, run_program

pytestmark = [pytest.mark.timeout(90), needs("bubblewrap")]
NOBODY = 65534
ENTRY_POINTS = "[pydantic]\nplugin = planted:plugin\n"
WRITE_PLANTED = 'await runtime.call("write", {"file_path": "planted.py", "content": PAYLOAD})'
START_AGAIN = 'assert (await runtime.call("add", {"a": 1, "b": 2})).ok'


@pytest.mark.parametrize("folder", ["Evil-1.DIST-INFO", "evil.Egg-Info", "e" * 236 + "-1.0.dist-info", "mine.egg-info"])
@pytest.mark.parametrize("way", ["file tool", "command"])
def test_no_entry_point_of_a_tool_is_loaded(tmp_path: Path, folder: str, way: str) -> None:
    (tmp_path / "mine.egg-info").mkdir()
    (tmp_path / "mine.egg-info/PKG-INFO").write_text("Name: mine\nVersion: 1.0\n")
    if way == "file tool":
        plant = f'("write", {{"file_path": "{folder}/entry_points.txt", "content": {ENTRY_POINTS!r}}})'
    else:
        command = f"mkdir -p {folder}; printf '{ENTRY_POINTS}' > {folder}/entry_points.txt"
        plant = f'("bash", {{"command": {command!r}}})'
    run_program(tmp_path, f"{WRITE_PLANTED}\noutcome = await runtime.call{plant}\nassert not outcome.ok, outcome")

    run_program(tmp_path, START_AGAIN)


@pytest.mark.parametrize("path", ["opentelemetry/trace.py", "opentelemetry/trace/__init__.py"])
def test_no_module_is_added_to_a_package_without_an_init_file(tmp_path: Path, path: str) -> None:
    command = f"mkdir -p {os.path.dirname(path)}; echo 1 > {path}"
    run_program(
        tmp_path,
        f"""
        outcome = await runtime.call("write", {{"file_path": {path!r}, "content": PAYLOAD}})
        assert outcome.code == "denied", outcome
        outcome = await runtime.call("bash", {{"command": {command!r}}})
        assert outcome.code == "denied", outcome
        assert not Path({path!r}).exists()
        """,
    )


def test_folders_of_ordinary_names_can_be_made(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        """
        command = "mkdir -p docs test pk; touch docs/c.py test/t.py pk/__init__.py; python3 -c 'import pk, docs.c'"
        outcome = await runtime.call("bash", {"command": command})
        assert outcome.ok, outcome
        """,
    )


def test_an_archive_that_the_program_imports_from_stays_as_it_is(tmp_path: Path, monkeypatch) -> None:
    subprocess.run([sys.executable, "-m", "zipfile", "-c", "lib.zip", __file__], cwd=tmp_path, check=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib.zip"))
    run_program(
        tmp_path,
        """
        assert (await runtime.call("write", {"file_path": "lib.zip", "content": "x"})).code == "denied"
        assert not (await runtime.call("bash", {"command": "echo x > lib.zip"})).ok
        assert not (await runtime.call("bash", {"command": "mv lib.zip other.zip"})).ok
        """,
    )


def test_a_folder_that_programs_are_looked_for_in_is_not_made_by_a_command(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/node_modules/.bin:{os.environ['PATH']}")
    run_program(
        tmp_path,
        """
        outcome = await runtime.call("bash", {"command": "mkdir -p node_modules/.bin; echo > node_modules/.bin/npx"})
        assert outcome.code == "denied", outcome
        assert not Path("node_modules/.bin").exists()
        """,
    )


def test_installed_packages_of_the_user_are_not_made_by_a_command(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run_program(
        tmp_path,
        """
        import site
        folder = site.getusersitepackages()
        outcome = await runtime.call("bash", {"command": f"mkdir -p {folder}; echo 'import os' > {folder}/evil.pth"})
        assert outcome.code == "denied", outcome
        assert not Path(folder).exists()
        """,
    )


@pytest.mark.parametrize("swap", ["mv real old && mv junk real", "ln -sfn junk current"])
def test_a_module_behind_a_link_is_not_imported_when_its_folder_was_swapped(tmp_path: Path, swap: str) -> None:
    for folder, text in (("real", ""), ("junk", PAYLOAD)):
        (tmp_path / folder / "package").mkdir(parents=True)
        for name in ("settings.py", "package/__init__.py", "package/module.py"):
            (tmp_path / folder / name).write_text(text)
    (tmp_path / "current").symlink_to("real")
    (tmp_path / "settings.py").symlink_to("current/settings.py")
    (tmp_path / "package").symlink_to("current/package")
    run_program(
        tmp_path,
        f"""
        outcome = await runtime.call("bash", {{"command": {swap!r}}})
        assert outcome.ok, outcome
        for name in ("settings", "package.module"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue
            raise AssertionError(f"{{name}} was imported")
        """,
    )


def test_a_module_behind_a_link_is_imported_if_nothing_was_moved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/settings.py").write_text("")
    (tmp_path / "settings.py").symlink_to("real/settings.py")
    run_program(
        tmp_path,
        """
        assert (await runtime.call("write", {"file_path": "notes.txt", "content": "x"})).ok
        importlib.import_module("settings")
        """,
    )


def test_a_link_that_leads_out_of_the_workspace_is_not_imported(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("open('ATTACKED', 'w').close()")
    (tmp_path / "work").mkdir()
    run_program(
        tmp_path / "work",
        f"""
        outcome = await runtime.call("bash", {{"command": "ln -s {outside} harmless.py"}})
        assert outcome.ok, outcome
        try:
            importlib.import_module("harmless")
        except ImportError:
            pass
        """,
    )


def test_a_name_is_taken_away_from_a_folder_that_was_made_unwritable() -> None:
    own_user = os.geteuid()
    user = own_user or NOBODY  # root may write everywhere
    with TemporaryDirectory(dir=TEMP_FOLDER_PARENT) as folder:
        missing = Path(folder, "bin")
        names = RefusedNames([missing.parent], [missing])
        missing.mkdir()
        os.chown(folder, user, -1)
        os.chmod(folder, 0o555)
        os.seteuid(user)
        try:
            assert names.rename_new_paths()
        finally:
            os.seteuid(own_user)

        assert not missing.exists()


async def test_a_command_that_makes_many_names_is_inspected_in_little_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    looked_at: list[str] = []
    monkeypatch.setattr("surehand.workspace.refused_names.has_package_file", looked_at.append)
    async with Runtime(files(tmp_path), shell(tmp_path)) as runtime:
        outcome = await runtime.call("bash", {"command": "touch $(seq 1 5000)"})

    assert outcome.ok
    assert looked_at == []
