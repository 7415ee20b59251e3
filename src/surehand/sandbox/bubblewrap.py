"""Bubblewrap: the command line that starts a program inside a sandbox."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, NotStarted
from surehand.sandbox import seccomp, system_mounts
from surehand.sandbox.command_line import BindMount, SandboxCommandLine
from surehand.sandbox.command_line import PathMount as PathMount
from surehand.sandbox.pidfd import child_pids
from surehand.sandbox.sandbox import Sandbox

INSTALL_HINT = "Install it on the machine (apt install bubblewrap, dnf install bubblewrap)"
_REQUIRED_OPTIONS = ("--size", "--perms", "--disable-userns", "--die-with-parent", "--ro-bind-fd")
_UNSAFE_PATHS = ("/", "/proc", "/sys", "/dev")
_ULIMIT_OPTIONS = {"CORE": ("-c", 1), "CPU": ("-t", 1), "DATA": ("-d", 1024), "FSIZE": ("-f", 512), "NOFILE": ("-n", 1)}
"""How a shell is told each limit, and in which units."""
DEFAULT_SANDBOX = Sandbox()


def build_command_line(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    folders: Sequence[BindMount] = (),
    read: Sequence[str | os.PathLike[str]] = (),
    sandbox: Sandbox = DEFAULT_SANDBOX,
    stdin: bool = False,
    gated: bool = False,
) -> SandboxCommandLine:
    """Build the command line that runs `argv` inside a sandbox. Nothing is started.

    For short work in a thread, `start` below is all that is needed:

        process = start(["rg", "--json", "word"], cwd=root.path, folders=[root])
        try:
            for line in process.stdout: ...
        finally:
            process.kill()      # ends everything inside, at once; harmless when it has ended by itself
            process.wait()
            process.stdout.close()

    Whoever starts the command line itself does so with `pass_fds=jail.pass_fds`, an empty `env` (the first process
    inside would show it) and `start_new_session=True`, and from a thread that lives as long as the command: the kernel
    ends the command with the thread that started it.

    Args:
        argv: the program, by its full path if it lies outside /usr (it is shown then), and its arguments.
        cwd: where it starts; a path that is shown.
        folders: shown at their own paths, and bound by their descriptors where they have one: a workspace's roots.
        read: further paths that are shown, read-only.
        stdin: False gives the program an empty input.
        gated: the program waits for a line on its standard input, after it has written an empty line to its output.
            Killed before that, bubblewrap would leave its program behind.
    """
    bubblewrap = find_bubblewrap()
    jail = SandboxCommandLine()
    try:
        words = _bubblewrap_arguments(jail, sandbox, [*folders, *_path_mounts(argv[0], read, sandbox)], os.fspath(cwd))
        said = str(
            jail.descriptor_with("\0".join(words))
        )  # not on the command line, which every user of the machine can see
        jail.argv = [bubblewrap, "--args", said, "--", *_shell_wrapper(argv, sandbox, stdin, gated)]
    except BaseException:
        jail.close()
        raise
    return jail


def start_sandboxed(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program inside a sandbox, for whoever reads its `stdout` and `stderr` in a thread; see `sandboxed`."""
    check_bubblewrap()
    with build_command_line(argv, gated=True, **options) as jail:
        process = subprocess.Popen(
            jail.argv, stdin=-1, stdout=-1, stderr=-1, pass_fds=jail.pass_fds, env={}, start_new_session=True
        )
    try:
        _open_gate(process)
    except BaseException:
        discard_process(process)
        raise
    return process


def _open_gate(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.read(1) != b"\n":
        raise NotStarted(f"The sandbox did not start: {_last_error_line(process)}")
    for _ in range(ARMING_TIMEOUT_MILLISECONDS):
        if all(map(is_tied_to_parent, child_pids(process.pid))):
            break
        time.sleep(0.001)
    process.stdin.write(b"\n")
    process.stdin.close()


ARMING_TIMEOUT_MILLISECONDS = 5_000
"""Milliseconds that the first process inside has to ask to die with its parent; it takes less than one."""


def is_tied_to_parent(pid: int) -> bool:
    """Whether the first process inside has asked to die with its parent: the next thing it does is to filter."""
    try:
        return "\nSeccomp:\t2" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def _last_error_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read(4096).decode(errors="replace").strip().rpartition("\n")[2] or "no reason was given"


def discard_process(process: subprocess.Popen[bytes]) -> None:
    """End a process that has not passed the gate yet.

    Its input is closed first: what waits at the gate then ends by itself, even if bubblewrap is gone by then.
    """
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.kill()
    process.wait()


def _path_mounts(program: str, read: Sequence[str | os.PathLike[str]], sandbox: Sandbox) -> list[PathMount]:
    given = [Path(path).absolute() for path in read]
    seen = [*given, *map(Path, sandbox.read), *map(Path, sandbox.write)]
    # A program in a folder that is shown is there already; if it is a link, it could not be put there a second time.
    there = system_mounts.is_system_path(Path(program)) or any(map(Path(program).is_relative_to, seen))
    if program.startswith("/") and not there:
        given.append(Path(program))
    return [PathMount(path) for path in given]


def _bubblewrap_arguments(
    command_line: SandboxCommandLine, sandbox: Sandbox, folders: Sequence[BindMount], cwd: str
) -> list[str]:
    uid = str(system_mounts.SANDBOX_UID)
    words = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if sandbox.network else ["--unshare-net"]
    words += ["--disable-userns", "--uid", uid, "--gid", uid, "--hostname", "sandbox", "--cap-drop", "ALL"]
    words += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in sandbox.environment.items():
        words += ["--setenv", name, value]
    words += system_mounts.system_mount_arguments(sandbox)
    for path, content in system_mounts.SYNTHETIC_FILES.items():
        words += ["--perms", "0444", "--file", str(command_line.descriptor_with(content)), path]
    words += _bind_arguments(command_line, [*folders, *_sandbox_mounts(sandbox)])
    words += ["--seccomp", str(command_line.descriptor_with(_seccomp_filter(sandbox)))]
    return [*words, "--remount-ro", "/", "--chdir", cwd]


def _seccomp_filter(sandbox: Sandbox) -> bytes:
    program = seccomp.build_filter(unix_sockets=not sandbox.network)
    if program is None:
        raise NotStarted(
            f"There is no filter of system calls for {platform.machine()}, so that commands cannot run here."
        )
    return program


def _sandbox_mounts(sandbox: Sandbox) -> list[PathMount]:
    read = [PathMount(Path(path)) for path in sandbox.read]
    return read + [PathMount(Path(path), writable=True) for path in sandbox.write]


def _bind_arguments(command_line: SandboxCommandLine, folders: Sequence[BindMount]) -> list[str]:
    """Outer folders first, so that an inner one keeps its own right to be written to, or not."""
    words: list[str] = []
    for folder in sorted(folders, key=lambda folder: len(folder.path.parts)):
        refuse_unsafe_path(folder.path)
        if getattr(folder, "hidden", False):
            words += ["--ro-bind", "/dev/null", str(folder.path)]  # a device, where devices cannot be opened
            continue
        descriptor = command_line.descriptor_of(folder)
        if any(outer.writable and outer.path in folder.path.parents for outer in folders):
            _refuse_moved(folder.path, descriptor)
        words += ["--bind-fd" if folder.writable else "--ro-bind-fd", str(descriptor), str(folder.path)]
    return words


def _refuse_moved(path: Path, descriptor: int) -> None:
    """What lies in a folder that commands write to may be moved by them, and a link put in its place."""
    if os.readlink(f"/proc/self/fd/{descriptor}") != str(path):
        raise NotStarted(f"{path} is not where it was: it has been moved, or something else is in its place.")


def refuse_unsafe_path(path: Path) -> None:
    """No sandbox holds what may see the whole machine."""
    if str(path) in _UNSAFE_PATHS or any(path.is_relative_to(folder) for folder in _UNSAFE_PATHS[1:]):
        raise DefinitionError(f"A sandbox cannot show {path}.", fix="name a folder with the files that are needed.")


def _shell_wrapper(argv: Sequence[str], sandbox: Sandbox, stdin: bool, gated: bool) -> list[str]:
    """What runs first inside: sets limits, waits at the gate, and becomes the program."""
    gate = "echo; read -r _ || exit 125" if gated else ""
    become = 'exec "$@"' if stdin else 'exec "$@" </dev/null'
    return ["/bin/sh", "-c", "\n".join([_ulimit_script(sandbox), gate, become]), "sh", *argv]


def _ulimit_script(sandbox: Sandbox) -> str:
    most = sandbox.rlimits
    lines = [f"ulimit {option} {most[name] // unit} || exit 125" for name, (option, unit) in _ULIMIT_OPTIONS.items()]
    lines += ["ulimit -u {0} 2>/dev/null || ulimit -p {0} || exit 125".format(most["NPROC"])]  # shells differ
    # When the machine runs out of memory, this goes first.
    return "\n".join([*lines, "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null"])


@cache
def check_bubblewrap() -> None:
    """Raise `NotStarted`, with what to do, unless bubblewrap has really started something here."""
    with build_command_line(["true"], cwd="/") as jail:
        try:
            tried = subprocess.run(
                jail.argv, pass_fds=jail.pass_fds, env={}, capture_output=True, timeout=10, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NotStarted(f"Commands run inside bubblewrap only, and it cannot start here: {error}.") from error
    if tried.returncode:
        reason = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {tried.returncode}"
        raise NotStarted(
            f"Commands run inside bubblewrap only, and it cannot start here: {reason}. The machine has to allow user "
            "namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, an AppArmor profile)."
        )


@cache
def find_bubblewrap() -> str:
    """The path of a bubblewrap that knows all that is needed; raises `NotStarted`, with what to do."""
    path = shutil.which("bwrap")
    if path is None:
        raise NotStarted(f"Commands run inside bubblewrap only, and there is none. {INSTALL_HINT}.")
    if missing := [option for option in _REQUIRED_OPTIONS if option not in _help_text(path)]:
        raise NotStarted(f"The installed bubblewrap does not know {missing[0]}. {INSTALL_HINT}, version 0.10 or newer.")
    return path


@cache
def _help_text(path: str) -> str:
    return subprocess.run([path, "--help"], capture_output=True, text=True, env={}, check=False).stdout
