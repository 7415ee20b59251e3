"""The command itself: its version, what it needs, and where it finds tools."""

import re
import subprocess
from importlib.metadata import entry_points

import pytest

from surehand import __version__
from surehand.core.extras import install_command

GOOD = "from surehand import tool\n\n@tool\nasync def hello() -> str:\n    '''Say hello.'''\n    return 'hi'\n"


def test_it_is_installed_as_surehand():
    [command] = entry_points(group="console_scripts", name="surehand")

    assert command.value == "surehand.cli.main:main"


def test_the_version_is_printed_without_heavy_imports(piped):
    count = "; import sys; print(sorted({'rich', 'pydantic', 'yaml', 'asyncio'} & sys.modules.keys()))"
    start = f"from surehand.cli.main import main\ntry: main()\nexcept SystemExit as e: print(e.code){count}"

    ran = piped("--version", start=start)

    assert ran.out == f"surehand {__version__}\n0\n[]\n"


@pytest.mark.parametrize("package", ["click", "rich", "yaml"])
def test_a_missing_package_is_named_with_its_extra(piped, tmp_path, package):
    (tmp_path / "surehand.yaml").write_text("tools: []\n")
    start = f"import sys; sys.modules['{package}'] = None; from surehand.cli.main import main; main()"

    ran = piped("tools", start=start)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: The command line needs {package}: {install_command('cli')}\n"


def test_no_tools_and_no_configuration_says_what_to_do(run):
    ran = run("tools")

    assert (ran.code, ran.out) == (2, "")
    assert "--tools tools.py" in ran.err
    assert "surehand init" in ran.err


@pytest.mark.parametrize("source", ["mine.py", "mine.py:hello", "mine", "mine:hello", "pack.inner", "pack.inner:Box"])
def test_a_source_is_a_file_or_a_module_and_perhaps_one_thing_in_it(run, tmp_path, source):
    (tmp_path / "mine.py").write_text(GOOD)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "inner.py").write_text(
        "from mine import hello\nfrom surehand import tool\nclass Box:\n    @tool\n"
        "    async def hello(self) -> str:\n        '''Say hello.'''\n        return 'hi'\n"
    )

    assert run("call", "-t", source, "hello").lines[0]["data"] == "hi"


def test_a_file_may_import_its_neighbours_and_share_a_tool_with_them(run, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "neighbour_one.py").write_text(GOOD)
    (tmp_path / "deep" / "neighbour_two.py").write_text(
        GOOD.replace("hello()", "bye()") + "\nfrom neighbour_one import hello as again\n"
    )

    ran = run("tools", "-t", "deep/neighbour_one.py", "-t", "deep/neighbour_two.py")

    assert sorted(tool["name"] for tool in ran.lines) == ["bye", "hello"]


def test_tools_may_stand_in_a_list_and_one_that_is_named_twice_is_one_tool(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from surehand import tool\n\n"
        '@tool\ndef one() -> int:\n    """One."""\n    return 1\n\n'
        "both = [one, tool(name='two', description='Two.')(lambda: 2)]\n"
        "_three = [tool(name='three', description='Three.')(lambda: 3)]\nnumbers = [1]\n"
    )

    assert [entry["name"] for entry in run("tools", "-t", "mine.py").lines] == ["one", "two"]


def test_a_file_never_shadows_another_module(run, tmp_path):
    (tmp_path / "json.py").write_text(GOOD)

    assert run("call", "-t", "json.py", "hello").lines[0]["data"] == "hi"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\ndef broken(:\n", "mine.py:2: invalid syntax"),
        ("import no_such_package\n", "mine.py:1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("\n\nint('x')\n", "mine.py:3: ValueError: invalid literal"),
        ("import json\n\njson.loads('{')\n", "mine.py:3: JSONDecodeError"),
        ("import sys\nsys.exit(3)\n", "mine.py:2: the module exits the program"),
        (
            "from surehand import tool\n\n@tool(timeout=0)\ndef f(): ...\n",
            "mine.py:3: `timeout` must be above zero, got 0.",
        ),
        ("x = 1\n", "mine.py contains no tools."),
        (GOOD.replace("() ->", "(x: 'Nowhere') ->"), "mine.py:3: "),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_with_its_line(run, tmp_path, text, problem):
    (tmp_path / "mine.py").write_text(text)

    ran = run("tools", "-t", "mine.py")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {problem}")
    assert "Traceback" not in ran.err
    assert "Traceback" in run("tools", "-t", "mine.py", "--debug").err or "contains no tools" in problem


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("other.py", "The file other.py does not exist."),
        ("other", "The module 'other' does not exist. Name a file with its extension"),
        ("mine.py:helo", "mine.py has no 'helo'. Did you mean 'hello'?"),
        ("mine.py:number", "mine.py:number: 5 holds no tools."),
    ],
)
def test_a_source_that_is_not_there_is_named(run, tmp_path, source, problem):
    (tmp_path / "mine.py").write_text(GOOD + "number = 5\n")

    ran = run("tools", "-t", source)

    assert ran.code == 2
    assert ran.err.startswith(f"error: {problem}")


def test_prints_of_a_module_go_to_stderr(run, tmp_path):
    (tmp_path / "mine.py").write_text(f"print('loading')\n{GOOD}")

    ran = run("call", "-t", "mine.py", "hello")

    assert (ran.lines[0]["data"], ran.err) == ("hi", "loading\n")


def test_the_configuration_of_the_folder_is_found_with_paths_relative_to_it(run, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(GOOD)
    (tmp_path / "surehand.toml").write_text('tools = ["mine.py"]\n')
    assert [tool["name"] for tool in run("tools").lines] == ["hello"]

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [tool["name"] for tool in run("tools", "-c", "../surehand.toml").lines] == ["hello"]


def test_mistakes_in_the_configuration_end_with_2_and_name_the_line(run, tmp_path):
    (tmp_path / "surehand.yaml").write_text("defaults:\n  tool_timeuot: 5s\ntools: [nothing.py]\n")
    ran = run("tools")
    assert ran.code == 2
    assert ran.err.startswith("error: surehand.yaml:2: Unknown key 'tool_timeuot'. Fix: did you mean 'tool_timeout'?")

    (tmp_path / "surehand.yaml").write_text("defaults: {tool_timeout: 5s}\ntools:\n  - nothing.py\n")
    assert run("tools").err == "error: surehand.yaml:3: The file nothing.py does not exist.\n"


def test_what_init_writes_works_with_the_commands_that_it_prints(run, tmp_path, fast_path):
    ran = run("init", "my shop")
    assert ran.code == 0
    commands = re.findall(r"^  (\S.*)$", ran.out, re.MULTILINE)
    assert [command.split()[:2] for command in commands] == [
        ["cd", "'my"], ["surehand", "tools"], ["surehand", "call"], ["surehand", "call"],
    ]  # fmt: skip

    script = f"set -e; {'; '.join(commands[:-1])}; {commands[-1]} --yes; cat first.txt; {commands[-1]} || exit $?"
    ended = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": fast_path},
        timeout=30,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (1, "")  # in a pipe without a store no one can answer
    assert '"words":3' in ended.stdout
    assert "It asks before it writes.\n" in ended.stdout


def test_init_never_overwrites(run, tmp_path):
    (tmp_path / "tools.py").write_text("mine")

    ran = run("init")

    problem = "tools.py already exists, so nothing was written."
    assert (ran.code, ran.err) == (2, f"error: {problem} Give another folder: surehand init FOLDER.\n")
    assert (tmp_path / "tools.py").read_text() == "mine"
    assert not (tmp_path / "surehand.yaml").exists()


def test_a_module_may_run_an_event_loop(run, tmp_path):
    (tmp_path / "mine.py").write_text(f"import asyncio\nasyncio.run(asyncio.sleep(0))\n{GOOD}")

    assert run("call", "-t", "mine.py", "hello").lines[0]["data"] == "hi"


def test_tools_that_cannot_be_started_end_with_2(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from surehand import tool\ndef make():\n    raise OSError('no disk')\nlater = tool.lazy('later', make)\n"
    )

    ran = run("tools", "-t", "mine.py")

    assert ran.code == 2
    assert "mine.py:2: The factory of later failed: OSError: no disk" in ran.err


def test_a_configuration_without_tools_is_not_a_search_without_matches(piped, tmp_path):
    (tmp_path / "surehand.yaml").write_text("log: warning\n")

    ran = piped("tools")

    assert ran.err == (
        "There are no tools. Name some under `tools`, `builtin` or `mcp_servers` in the configuration file; "
        "`surehand doctor` checks it.\n"
    )


def test_a_command_that_does_not_exist_suggests_the_nearest_one_or_how_to_call_a_tool(piped):
    near, far = piped("aprove", "x"), piped("count_words", "text=one")

    assert near.err.endswith("Error: No such command 'aprove'. Did you mean 'approve'?\n")
    assert far.err.endswith("Error: No such command 'count_words'. To call a tool, use `surehand call`.\n")
    assert (near.code, far.code) == (2, 2)


def test_a_file_that_does_not_exist_suggests_the_nearest_one_beside_it(piped, tmp_path):
    (tmp_path / "expenses.py").write_text(GOOD)

    ran = piped("tools", "--tools", "expense.py")

    assert (ran.code, ran.err) == (2, "error: The file expense.py does not exist. Did you mean expenses.py?\n")
