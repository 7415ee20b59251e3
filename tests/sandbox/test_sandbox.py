"""What a sandbox shows, and what it lets a command use up."""

import base64
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from surehand import DefinitionError, Unavailable
from surehand.sandbox.bubblewrap import PathMount, build_command_line, start_sandboxed
from surehand.sandbox.child_process import ChildProcess
from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from surehand.workspace.workspace import Workspace
from tests.needs import needs
from tests.sandbox.inside import inside

pytestmark = [needs("bubblewrap"), pytest.mark.timeout(30)]  # a busy machine takes its time


async def test_a_command_sees_the_workspace_at_its_own_path_and_may_write_there(place):
    printed = await inside(place, "pwd; echo made > made.txt; cat made.txt")

    assert printed.out == f"{place.root}\nmade\n"
    assert (place.root / "made.txt").read_text() == "made\n"


async def test_files_that_a_command_makes_belong_to_whoever_runs_it(place):
    await inside(place, "touch made.txt")

    assert (place.root / "made.txt").stat().st_uid == os.geteuid()


async def test_a_folder_may_have_any_name(tmp_path):
    odd = tmp_path / os.fsdecode(b"a b\n--bind\xff'\"$(id)")
    odd.mkdir()
    workspace = Workspace(odd)

    async with await ChildProcess.start(["touch", "made"], cwd=odd, folders=workspace.roots) as child:
        assert await child.wait() == 0
    assert os.listdir(odd) == ["made"]


async def test_nothing_else_of_the_disk_is_there(place):
    printed = await inside(
        place, f"ls / ; ls -A {place.outside.parent}; ls -A /tmp/home; ls /home /root /var /run /sys"
    )

    shown = set(printed.out.split())
    assert shown <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "var",
                     "inside", "/var:"} | {place.root.name}  # fmt: skip


async def test_the_system_can_be_read_and_not_written(place):
    printed = await inside(
        place, "for at in / /usr /usr/bin /etc /dev /proc/sys /var; do touch $at/x && echo WROTE; done"
    )

    assert "WROTE" not in printed.out
    assert printed.err.count("Read-only file system") >= 6


async def test_the_environment_is_made_from_nothing(place):
    printed = await inside(place, "env | sort", sandbox=Sandbox(env={"MODE": "test"}))

    assert {line.partition("=")[0] for line in printed.out.splitlines()} == {
        "HOME", "LANG", "MODE", "PATH", "PWD", "SHLVL", "TMPDIR", "_"}  # fmt: skip


async def test_a_secret_in_the_environment_is_seen_by_no_command_in_no_encoding(place, monkeypatch):
    secret = "hunter2-c0ffee-secret"
    monkeypatch.setenv("API_KEY", secret)

    printed = await inside(
        place,
        "env; set; cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ | tr '\\0' '\\n'; mount;"
        "cat /proc/*/mountinfo; cat /proc/self/auxv | base64; find /etc /tmp /var -type f | xargs cat",
    )

    forms = [secret, secret[::-1], secret.encode().hex(), base64.b64encode(secret.encode()).decode().rstrip("=")]
    assert [form for form in forms if form in printed.out + printed.err] == []


async def test_only_the_standard_streams_are_open(place):
    descriptor = os.open(place.outside / "secret.txt", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        printed = await inside(place, "ls /proc/self/fd; cat <&3; cat <&5")
    finally:
        os.close(descriptor)

    assert set(printed.out.split()) <= {"0", "1", "2", "3"}  # `ls` has one open itself
    assert "s3cret" not in printed.out


async def test_a_folder_that_may_only_be_read_is_only_read(place, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.txt").write_text("page")
    workspace = Workspace(place.root, read_only=[tmp_path / "docs"])

    printed = await inside(place, f"cat {tmp_path}/docs/page.txt; touch {tmp_path}/docs/x", folders=workspace.roots)

    assert printed.out == "page"
    assert "Read-only file system" in printed.err


async def test_a_folder_inside_another_keeps_its_own_right(place):
    (place.root / "docs").mkdir()
    workspace = Workspace(place.root, read_only=[place.root / "docs"])

    printed = await inside(place, "touch docs/x; touch y; mv docs other; rmdir docs; ls", folders=workspace.roots)

    assert printed.out.split() == ["docs", "y"]
    assert printed.err.count("busy") == 2


async def test_a_folder_put_in_the_place_of_the_workspace_is_not_shown(place):
    moved = place.root.with_name("moved")
    (place.root / "own.txt").write_text("own")
    place.root.rename(moved)
    place.root.symlink_to(place.outside)

    printed = await inside(place, "ls; cat secret.txt")

    assert printed.out == "own.txt\n"


async def test_a_folder_inside_that_was_moved_is_not_followed(place):
    (place.root / "docs").mkdir()
    workspace = Workspace(place.root, read_only=[place.root / "docs"])
    (place.root / "docs").rename(place.root / "other")
    (place.root / "docs").symlink_to(place.outside)

    with pytest.raises(Unavailable, match="not where it was"):
        await inside(place, "cat docs/secret.txt", folders=workspace.roots)


async def test_a_path_inside_that_became_a_link_is_not_followed(place):
    (place.root / "more").mkdir()
    sandbox = Sandbox(read=[place.root / "more"])
    (place.root / "more").rmdir()
    (place.root / "more").symlink_to(place.outside)

    with pytest.raises(Unavailable, match="not where it was"):
        await inside(place, "cat more/secret.txt", sandbox=sandbox)


async def test_a_workspace_whose_writes_are_off_is_only_read(place):
    workspace = Workspace(place.root, writes=False)

    printed = await inside(place, "touch x", folders=workspace.roots)

    assert "Read-only file system" in printed.err


async def test_further_paths_are_shown_when_asked_for(place, tmp_path):
    (tmp_path / "more").mkdir()
    secret = place.outside / "secret.txt"

    printed = await inside(
        place, f"cat {secret}; echo x >> {secret}; touch {tmp_path}/more/made",
        sandbox=Sandbox(read=[secret], write=[tmp_path / "more"]),
    )  # fmt: skip

    assert printed.out == "s3cret-of-the-host\n"
    assert "Read-only file system" in printed.err
    assert (tmp_path / "more" / "made").exists()


async def test_temporary_files_are_private_and_bounded(place):
    sandbox = Sandbox(temporary="2MB")

    printed = await inside(
        place,
        "for at in /tmp /dev/shm $HOME; do head -c 9M /dev/zero > $at/x; stat -c %s $at/x; rm $at/x; done",
        sandbox=sandbox,
    )

    assert all(int(size) < 2_100_000 for size in printed.out.split())
    assert printed.err.count("No space left on device") == 3
    assert not Path("/tmp/home").exists()


@pytest.mark.parametrize(
    ("limit", "command", "told"),
    [
        ({"open_files": 20}, "ulimit -n", "20"),
        ({"processes": 30}, "ulimit -u", "30"),
        ({"cpu": 3}, "ulimit -t", "3"),
        ({"memory": "100MiB"}, "ulimit -d", str(100 * 1024)),
        ({"file_size": "1MiB"}, "ulimit -f", "1024"),
        ({}, "ulimit -c", "0"),
        ({}, "cat /proc/self/oom_score_adj", "1000"),
    ],
)
async def test_limits_are_set_before_the_command_begins(place, limit, command, told):
    assert (await inside(place, command, sandbox=Sandbox(**limit))).out.strip() == told


async def test_a_limit_cannot_be_raised_from_inside(place):
    printed = await inside(place, "ulimit -n 100; ulimit -u 1000; ulimit -t unlimited", sandbox=Sandbox(open_files=50))

    assert len(printed.err.splitlines()) == 3


async def test_a_file_stops_growing_at_its_limit(place):
    printed = await inside(place, "head -c 3M /dev/zero > big; stat -c %s big", sandbox=Sandbox(file_size="1MiB"))

    assert printed.out.strip() == str(1 << 20)


@needs("python in /usr")
async def test_memory_is_bounded(place):
    command = "python3 -c 'x = bytearray(1 << 30); print(len(x))'"

    printed = await inside(place, command, sandbox=Sandbox(memory="200MiB"))

    assert "MemoryError" in printed.err


# Bounded in itself: should nothing stop it, it ends after 300 processes.
BOMB = """python3 -c '
import os, time
try:
    for made in range(300):
        if not os.fork():
            time.sleep(60)
except OSError as error:
    print(made, error)
'"""


@needs("python in /usr")
async def test_a_bomb_of_forks_stops_at_its_limit_even_for_root(place):
    printed = await inside(place, BOMB, sandbox=Sandbox(processes=60))

    assert 50 < int(printed.out.split()[0]) < 60


async def test_the_users_own_processes_do_not_count(place):
    """The kernel counts a user's processes in every namespace; the limit is for those inside."""
    assert (await inside(place, "true; echo fine", sandbox=Sandbox(processes=5))).out == "fine\n"


@needs("root")
async def test_too_many_processes_are_found_where_nothing_else_bounds_them(place, monkeypatch):
    from surehand.sandbox import child_process as module

    monkeypatch.setattr(module.ControlGroup, "try_create", lambda processes: None)
    async with await ChildProcess.start(
        ["bash", "-c", "for i in $(seq 200); do sleep 60 & done; sleep 60"],
        cwd=place.root, folders=place.workspace.roots, sandbox=Sandbox(processes=150),
    ) as child:  # fmt: skip
        code = await child.wait()

    assert (code, child.exceeded_process_limit) == (137, True)


@needs("python in /usr")
async def test_a_server_inside_is_reached_inside(place):
    server = "python3 -m http.server 8000 >/dev/null 2>&1 & until exec 3<>/dev/tcp/localhost/8000; do sleep 0.05; done"

    printed = await inside(place, f"({server}) 2>/dev/null; echo reached; tail -n +3 /proc/net/dev | wc -l")

    assert printed.out.split() == ["reached", "1"]


def test_a_program_can_be_started_from_a_thread(place):
    process = start_sandboxed(["cat", "own.txt"], cwd=place.root, folders=place.workspace.roots)
    with process:
        assert process.stdout.read() == b""
        assert b"own.txt" in process.stderr.read()
    assert process.returncode == 1


def test_a_program_outside_of_the_system_is_shown_with_it(place):
    program = place.outside / "hello"
    program.write_text("#!/bin/sh\necho hello from $0\n")
    program.chmod(0o755)

    with start_sandboxed([str(program)], cwd=place.root, folders=[PathMount(place.root)]) as process:
        assert process.stdout.read() == f"hello from {program}\n".encode()


def test_a_command_line_can_be_built_and_started_by_itself(place):
    with build_command_line(["pwd"], cwd=place.root, read=[place.root]) as jail:
        done = subprocess.run(jail.argv, pass_fds=jail.pass_fds, env={}, capture_output=True, check=True)

    assert done.stdout.decode().strip() == str(place.root)


def test_what_a_command_line_holds_is_not_shown_to_other_users(place):
    with build_command_line(["true"], cwd=place.root, sandbox=Sandbox(env={"TOKEN": "s3cret"})) as jail:
        assert "s3cret" not in " ".join(jail.argv)


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm"])
def test_the_whole_machine_cannot_be_shown(place, path):
    with pytest.raises(DefinitionError, match="cannot show"):
        build_command_line(["true"], cwd="/", sandbox=Sandbox(read=[path]))


@pytest.mark.parametrize(
    "wrong",
    [{"memory": 0}, {"memory": "much"}, {"memory": None}, {"cpu": -1}, {"cpu": "long"}, {"cpu": "off"},
     {"processes": 0}, {"open_files": "many"}, {"temporary": 0}, {"env": {"A=B": "x"}}, {"env": {"A": 1}},
     {"env": {"A": "x\0y"}}, {"read": "/usr"}, {"read": ["/no/such/path"]}],
)  # fmt: skip
def test_a_sandbox_that_cannot_be_is_a_definition_error(wrong):
    with pytest.raises(DefinitionError):
        Sandbox(**wrong)


def test_limits_never_ask_for_more_than_this_process_has():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    assert Sandbox(open_files=hard + 10).rlimits["NOFILE"] == hard


def test_values_say_what_they_are():
    assert type(UNPROTECTED)() == UNPROTECTED
    assert Sandbox(network=True) != Sandbox()


@needs("root")
@needs("python in /usr")
def test_it_holds_for_an_ordinary_user_too():
    script = """
import os, sys
from pathlib import Path
from surehand.sandbox.bubblewrap import start_sandboxed
from surehand.sandbox.command_line import PathMount
from surehand.sandbox.sandbox import Sandbox
root = Path(sys.argv[1])
folder = PathMount(root, True, os.open(root, os.O_RDONLY))
command = ["bash", "-c", "id -u; touch made; cat /etc/shadow 2>&1; " + sys.argv[2]]
with start_sandboxed(command, cwd=root, folders=[folder], sandbox=Sandbox(processes=60)) as process:
    print(process.stdout.read().decode(), process.stderr.read().decode())
"""
    source = Path(sys.modules["surehand"].__file__).parents[1]
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    surroundings = {"PYTHONPATH": str(source), "PATH": os.environ["PATH"]}
    with tempfile.TemporaryDirectory(prefix="surehand-", dir="/tmp") as folder:
        os.chown(folder, 65534, 65534)
        command = [*user, python, "-B", "-c", script, folder, BOMB]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=25, check=False)
        made = os.listdir(folder)

    assert made == ["made"], done.stderr
    uid, shadow, forks = done.stdout.splitlines()[:3]
    assert uid == "1000"
    assert "No such file" in shadow
    assert 50 < int(forks.split()[0]) < 60
