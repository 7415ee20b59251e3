"""The paths that a sandbox mounts, and the limits that it sets."""

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
from tests.requirements import needs
from tests.sandbox.inside import run_in_sandbox

pytestmark = [needs("bubblewrap"), pytest.mark.timeout(30)]  # a busy machine takes its time


async def test_the_workspace_is_mounted_writable_at_its_own_path(place):
    printed = await run_in_sandbox(place, "pwd; echo made > made.txt; cat made.txt")

    assert printed.out == f"{place.root}\nmade\n"
    assert (place.root / "made.txt").read_text() == "made\n"


async def test_new_files_belong_to_the_user_of_this_process(place):
    await run_in_sandbox(place, "touch made.txt")

    assert (place.root / "made.txt").stat().st_uid == os.geteuid()


async def test_a_folder_may_have_any_name(tmp_path):
    odd = tmp_path / os.fsdecode(b"a b\n--bind\xff'\"$(id)")
    odd.mkdir()
    workspace = Workspace(odd)

    async with await ChildProcess.start(["touch", "made"], cwd=odd, folders=workspace.roots) as child:
        assert await child.wait() == 0
    assert os.listdir(odd) == ["made"]


async def test_nothing_else_of_the_disk_is_mounted(place):
    printed = await run_in_sandbox(
        place, f"ls / ; ls -A {place.outside.parent}; ls -A /tmp/home; ls /home /root /var /run /sys"
    )

    shown = set(printed.out.split())
    assert shown <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "var",
                     "inside", "/var:"} | {place.root.name}  # fmt: skip


async def test_the_system_is_read_only(place):
    printed = await run_in_sandbox(
        place, "for at in / /usr /usr/bin /etc /dev /proc/sys /var; do touch $at/x && echo WROTE; done"
    )

    assert "WROTE" not in printed.out
    assert printed.err.count("Read-only file system") >= 6


async def test_the_environment_of_this_process_is_not_inherited(place):
    printed = await run_in_sandbox(place, "env | sort", sandbox=Sandbox(env={"MODE": "test"}))

    assert {line.partition("=")[0] for line in printed.out.splitlines()} == {
        "HOME", "LANG", "MODE", "PATH", "PWD", "SHLVL", "TMPDIR", "_"}  # fmt: skip


async def test_no_command_sees_a_secret_of_the_environment_in_any_encoding(place, monkeypatch):
    secret = "hunter2-c0ffee-secret"
    monkeypatch.setenv("API_KEY", secret)

    printed = await run_in_sandbox(
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
        printed = await run_in_sandbox(place, "ls /proc/self/fd; cat <&3; cat <&5")
    finally:
        os.close(descriptor)

    assert set(printed.out.split()) <= {"0", "1", "2", "3"}  # `ls` has one open itself
    assert "s3cret" not in printed.out


async def test_a_read_only_folder_cannot_be_written(place, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.txt").write_text("page")
    workspace = Workspace(place.root, read_only=[tmp_path / "docs"])

    printed = await run_in_sandbox(
        place, f"cat {tmp_path}/docs/page.txt; touch {tmp_path}/docs/x", folders=workspace.roots
    )

    assert printed.out == "page"
    assert "Read-only file system" in printed.err


async def test_a_folder_inside_another_keeps_its_own_write_access(place):
    (place.root / "docs").mkdir()
    workspace = Workspace(place.root, read_only=[place.root / "docs"])

    printed = await run_in_sandbox(
        place, "touch docs/x; touch y; mv docs other; rmdir docs; ls", folders=workspace.roots
    )

    assert printed.out.split() == ["docs", "y"]
    assert printed.err.count("busy") == 2


async def test_a_folder_that_replaced_the_workspace_is_not_mounted(place):
    moved = place.root.with_name("moved")
    (place.root / "own.txt").write_text("own")
    place.root.rename(moved)
    place.root.symlink_to(place.outside)

    printed = await run_in_sandbox(place, "ls; cat secret.txt")

    assert printed.out == "own.txt\n"


async def test_a_folder_inside_that_was_moved_is_not_followed(place):
    (place.root / "docs").mkdir()
    workspace = Workspace(place.root, read_only=[place.root / "docs"])
    (place.root / "docs").rename(place.root / "other")
    (place.root / "docs").symlink_to(place.outside)

    with pytest.raises(Unavailable, match="not where it was"):
        await run_in_sandbox(place, "cat docs/secret.txt", folders=workspace.roots)


async def test_a_path_inside_that_became_a_link_is_not_followed(place):
    (place.root / "more").mkdir()
    sandbox = Sandbox(read=[place.root / "more"])
    (place.root / "more").rmdir()
    (place.root / "more").symlink_to(place.outside)

    with pytest.raises(Unavailable, match="not where it was"):
        await run_in_sandbox(place, "cat more/secret.txt", sandbox=sandbox)


async def test_a_workspace_without_writes_is_read_only(place):
    workspace = Workspace(place.root, writes=False)

    printed = await run_in_sandbox(place, "touch x", folders=workspace.roots)

    assert "Read-only file system" in printed.err


async def test_further_paths_are_mounted_on_request(place, tmp_path):
    (tmp_path / "more").mkdir()
    secret = place.outside / "secret.txt"

    printed = await run_in_sandbox(
        place, f"cat {secret}; echo x >> {secret}; touch {tmp_path}/more/made",
        sandbox=Sandbox(read=[secret], write=[tmp_path / "more"]),
    )  # fmt: skip

    assert printed.out == "s3cret-of-the-host\n"
    assert "Read-only file system" in printed.err
    assert (tmp_path / "more" / "made").exists()


async def test_temporary_files_are_private_and_limited(place):
    sandbox = Sandbox(temporary="2MB")

    printed = await run_in_sandbox(
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
async def test_limits_are_set_before_the_command_starts(place, limit, command, told):
    assert (await run_in_sandbox(place, command, sandbox=Sandbox(**limit))).out.strip() == told


async def test_a_limit_cannot_be_raised_from_inside(place):
    printed = await run_in_sandbox(
        place, "ulimit -n 100; ulimit -u 1000; ulimit -t unlimited", sandbox=Sandbox(open_files=50)
    )

    assert len(printed.err.splitlines()) == 3


async def test_a_file_stops_growing_at_its_limit(place):
    printed = await run_in_sandbox(
        place, "head -c 3M /dev/zero > big; stat -c %s big", sandbox=Sandbox(file_size="1MiB")
    )

    assert printed.out.strip() == str(1 << 20)


@needs("python in /usr")
async def test_memory_is_limited(place):
    command = "python3 -c 'x = bytearray(1 << 30); print(len(x))'"

    printed = await run_in_sandbox(place, command, sandbox=Sandbox(memory="200MiB"))

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
async def test_a_fork_bomb_stops_at_its_limit_even_for_root(place):
    printed = await run_in_sandbox(place, BOMB, sandbox=Sandbox(processes=60))

    assert 50 < int(printed.out.split()[0]) < 60


async def test_other_processes_of_the_user_do_not_count(place):
    """The kernel counts a user's processes in every namespace; the limit is for those inside."""
    assert (await run_in_sandbox(place, "true; echo fine", sandbox=Sandbox(processes=5))).out == "fine\n"


@needs("root")
async def test_too_many_processes_are_noticed_without_control_groups(place, monkeypatch):
    from surehand.sandbox import child_process as module

    monkeypatch.setattr(module.ControlGroup, "try_create", lambda processes: None)
    async with await ChildProcess.start(
        ["bash", "-c", "for i in $(seq 200); do sleep 60 & done; sleep 60"],
        cwd=place.root, folders=place.workspace.roots, sandbox=Sandbox(processes=150),
    ) as child:  # fmt: skip
        code = await child.wait()

    assert (code, child.exceeded_process_limit) == (137, True)


@needs("python in /usr")
async def test_a_server_in_the_sandbox_can_be_reached_from_inside(place):
    server = "python3 -m http.server 8000 >/dev/null 2>&1 & until exec 3<>/dev/tcp/localhost/8000; do sleep 0.05; done"

    printed = await run_in_sandbox(place, f"({server}) 2>/dev/null; echo reached; tail -n +3 /proc/net/dev | wc -l")

    assert printed.out.split() == ["reached", "1"]


def test_a_program_can_be_started_from_a_thread(place):
    process = start_sandboxed(["cat", "own.txt"], cwd=place.root, folders=place.workspace.roots)
    with process:
        assert process.stdout.read() == b""
        assert b"own.txt" in process.stderr.read()
    assert process.returncode == 1


def test_a_program_outside_the_system_folders_is_mounted(place):
    program = place.outside / "hello"
    program.write_text("#!/bin/sh\necho hello from $0\n")
    program.chmod(0o755)

    with start_sandboxed([str(program)], cwd=place.root, folders=[PathMount(place.root)]) as process:
        assert process.stdout.read() == f"hello from {program}\n".encode()


def test_a_command_line_can_be_built_and_started_separately(place):
    with build_command_line(["pwd"], cwd=place.root, read=[place.root]) as jail:
        done = subprocess.run(jail.argv, pass_fds=jail.pass_fds, env={}, capture_output=True, check=True)

    assert done.stdout.decode().strip() == str(place.root)


def test_a_command_line_does_not_expose_its_arguments_to_other_users(place):
    with build_command_line(["true"], cwd=place.root, sandbox=Sandbox(env={"TOKEN": "s3cret"})) as jail:
        assert "s3cret" not in " ".join(jail.argv)


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/1", "/sys", "/dev", "/dev/shm"])
def test_the_whole_machine_cannot_be_mounted(place, path):
    with pytest.raises(DefinitionError, match="cannot show"):
        build_command_line(["true"], cwd="/", sandbox=Sandbox(read=[path]))


@pytest.mark.parametrize(
    "wrong",
    [{"memory": 0}, {"memory": "much"}, {"memory": None}, {"cpu": -1}, {"cpu": "long"}, {"cpu": "off"},
     {"processes": 0}, {"open_files": "many"}, {"temporary": 0}, {"env": {"A=B": "x"}}, {"env": {"A": 1}},
     {"env": {"A": "x\0y"}}, {"read": "/usr"}, {"read": ["/no/such/path"]}],
)  # fmt: skip
def test_an_invalid_sandbox_is_a_definition_error(wrong):
    with pytest.raises(DefinitionError):
        Sandbox(**wrong)


def test_limits_never_exceed_those_of_this_process():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    assert Sandbox(open_files=hard + 10).rlimits["NOFILE"] == hard


def test_settings_compare_by_value():
    assert type(UNPROTECTED)() == UNPROTECTED
    assert Sandbox(network=True) != Sandbox()


@needs("root")
@needs("python in /usr")
def test_the_sandbox_works_for_an_ordinary_user():
    script = """
import os, sys
from pathlib import Path
from surehand.sandbox.bubblewrap import PathMount, start_sandboxed
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
