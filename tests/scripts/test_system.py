"""What the tests want of a machine: root gets it installed, anybody else is told the command."""

import re
import shutil

import pytest

from tests.scripts.machine import ROOT, Machine, executable

INSTALL = "apt-get install -qq -y --no-install-recommends"
TESTS = "-m pytest -m not long --dist worksteal -n 4\n"


def test_root_gets_what_is_missing_on_a_fresh_machine(tmp_path):
    machine = Machine(tmp_path, 0)

    ran = machine.run(ROOT / "scripts/system")

    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == "Installing bubblewrap chromium git with apt-get ...\n"
    wanted = f"{INSTALL} bubblewrap chromium git"
    assert machine.called == [wanted, "apt-get update -qq", wanted]  # at first it knows of no packages


def test_anybody_else_is_told_the_command_and_never_made_root(tmp_path):
    machine = Machine(tmp_path, 1000, "chromium", "git")

    ran = machine.run(ROOT / "scripts/system")

    assert (ran.returncode, ran.stderr) == (1, f"Missing: bubblewrap. Run as root: {ROOT}/scripts/system\n")
    assert machine.called == []


def test_a_python_without_venv_is_completed(tmp_path):
    machine = Machine(tmp_path, 1000, "bwrap", "chromium", "git").without("python3")

    assert machine.run(ROOT / "scripts/system").stderr.startswith("Missing: python3 python3-venv. ")


def test_on_another_system_the_missing_programs_are_named(tmp_path):
    machine = Machine(tmp_path, 0, "chromium", "git").without("apt-get")

    ran = machine.run(ROOT / "scripts/system")

    assert (ran.returncode, machine.called) == (1, [])
    assert ran.stderr == "Missing: bubblewrap. Install them with this machine's package manager.\n"


def test_where_all_of_it_is_there_nothing_happens(tmp_path):
    machine = Machine(tmp_path, 0, "bwrap", "chromium", "git")

    ran = machine.run(ROOT / "scripts/system")

    assert (ran.returncode, ran.stderr, machine.called) == (0, "", [])


@pytest.fixture
def checkout(tmp_path):
    """The scripts in a checkout of their own, whose Python says what it is asked to run."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("test", "system"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
    executable(folder / "scripts/setup", "#!/bin/sh\n")
    executable(folder / ".venv/bin/python", '#!/bin/sh\necho "$@"\n')
    return folder


def test_the_tests_install_what_they_need_of_the_machine_for_root(tmp_path, checkout):
    machine = Machine(tmp_path / "machine", 0, "chromium", "git")

    ran = machine.run(checkout / "scripts/test", "-n", "4")

    assert (ran.returncode, ran.stdout) == (0, TESTS)
    assert machine.called[-1] == f"{INSTALL} bubblewrap"


def test_the_tests_tell_anybody_else_that_command_and_run(tmp_path, checkout):
    machine = Machine(tmp_path / "machine", 1000, "chromium", "git")

    ran = machine.run(checkout / "scripts/test", "-n", "4")

    assert (ran.returncode, ran.stdout, machine.called) == (0, TESTS, [])
    assert f"Run as root: {checkout}/scripts/system\n" in ran.stderr


def test_ci_calls_the_test_command_of_the_readme():
    [command] = re.findall(r"^(scripts/test\b[^#\n]*?) *(?:#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert f"run_suite {command}" in (ROOT / ".ci/run").read_text().splitlines()


def test_no_script_makes_itself_root():
    scripts = [ROOT / ".ci/run", *(ROOT / "scripts").iterdir()]

    assert [script.name for script in scripts if "sudo" in script.read_text()] == []
