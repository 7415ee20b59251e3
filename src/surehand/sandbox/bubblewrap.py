"""Running programs inside a sandbox made by bubblewrap (`bwrap`): command line, start, and a check that it works.

`child_process` and the file search use it. Linux only.
"""

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
from surehand.sandbox.command_line import BindMount, HideableMount, SandboxCommandLine
from surehand.sandbox.command_line import PathMount as PathMount
from surehand.sandbox.pidfd import child_pids
from surehand.sandbox.private_mounts import private_mounts
from surehand.sandbox.sandbox import Sandbox

INSTALL_HINT = "Install it on the machine (apt install bubblewrap, dnf install bubblewrap)"
_REQUIRED_OPTIONS = ("--size", "--perms", "--disable-userns", "--die-with-parent", "--ro-bind-fd")
_UNSAFE_PATHS = ("/", "/proc", "/sys", "/dev")
_ULIMIT_OPTIONS = {"CORE": ("-c", 1), "CPU": ("-t", 1), "DATA": ("-d", 1024), "FSIZE": ("-f", 512), "NOFILE": ("-n", 1)}
"""Option of `ulimit` for each resource limit, and the unit that the option counts in."""
DEFAULT_SANDBOX = Sandbox()
PARENT_TIE_TIMEOUT_MILLISECONDS = 5_000
"""How long the first process in the sandbox may take until it will die with its parent; it takes less than 1 ms."""
_CHECK_TIMEOUT_SECONDS = 10
_MAX_ERROR_BYTES = 4096


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

    For a short program that is read in a thread, `start_sandboxed` is enough:

        process = start_sandboxed(["rg", "--json", "word"], cwd=root.path, folders=[root])
        try:
            for line in process.stdout: ...
        finally:
            process.kill()      # kills every process in the sandbox; harmless when the program has ended
            process.wait()
            process.stdout.close()

    A caller that starts the command line itself passes `pass_fds=command_line.pass_fds`, an empty `env` (the first
    process in the sandbox would expose it) and `start_new_session=True`, and does so from a thread that lives as long
    as the command: the kernel kills the command when the thread that started it ends (PR_SET_PDEATHSIG).

    Args:
        argv: the program and its arguments. A program outside /usr is given by its full path and is mounted.
        cwd: working directory; a path that is mounted.
        folders: mounted at their own paths, by descriptor where they have one, such as the roots of a workspace.
        read: further paths that are mounted read-only.
        stdin: False gives the program an empty standard input.
        gated: the program writes an empty line to its output and then waits for a line on its standard input.
            If bubblewrap were killed before the gate, its program would be left behind.
    """
    bubblewrap = find_bubblewrap()
    mounts = [*folders, *_path_mounts(argv[0], read, sandbox)]
    command_line = SandboxCommandLine()
    try:
        arguments = _bubblewrap_arguments(command_line, sandbox, mounts, os.fspath(cwd))
        # Passed in a descriptor: every user of the machine can read a command line, and these name environment values.
        arguments_descriptor = str(command_line.descriptor_with("\0".join(arguments)))
        wrapper = _shell_wrapper(argv, sandbox, stdin, gated)
        command_line.argv = [bubblewrap, "--args", arguments_descriptor, "--", *wrapper]
    except BaseException:
        command_line.close()
        raise
    return command_line


def start_sandboxed(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program in a sandbox whose output is read in a thread; options as for `build_command_line`."""
    check_bubblewrap()
    with build_command_line(argv, gated=True, **options) as command_line:
        process = subprocess.Popen(
            command_line.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=command_line.pass_fds,
            env={},
            # Out of our process group: a Ctrl-C at the terminal would reach the program before we can stop it in order.
            start_new_session=True,
        )
    try:
        _open_gate(process)
    except BaseException:
        discard_process(process)
        raise
    return process


def _open_gate(process: subprocess.Popen[bytes]) -> None:
    """Let the program start once it is certain to die with its parent."""
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.read(1) != b"\n":
        raise NotStarted(f"The sandbox did not start: {_last_error_line(process)}")
    for _ in range(PARENT_TIE_TIMEOUT_MILLISECONDS):
        if all(map(is_tied_to_parent, child_pids(process.pid))):
            break
        time.sleep(0.001)
    process.stdin.write(b"\n")
    process.stdin.close()


def is_tied_to_parent(pid: int) -> bool:
    """Whether the first process in the sandbox will die with its parent.

    Bubblewrap sets PR_SET_PDEATHSIG right before it installs the seccomp filter (mode 2), and only the filter can be
    seen from outside.
    """
    try:
        return "\nSeccomp:\t2" in Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return True


def _last_error_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return _last_line(process.stderr.read(_MAX_ERROR_BYTES)) or "no reason was given"


def _last_line(output: bytes) -> str:
    return output.decode(errors="replace").strip().rpartition("\n")[2]


def discard_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has not passed the gate yet.

    Its input is closed first: the program waiting at the gate then ends by itself, even if bubblewrap is dead already.
    """
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.kill()
    process.wait()


def _path_mounts(program: str, read: Sequence[str | os.PathLike[str]], sandbox: Sandbox) -> list[PathMount]:
    paths = [Path(path).absolute() for path in read]
    mounted = [*paths, *map(Path, sandbox.read), *map(Path, sandbox.write)]
    # A program below a mounted folder needs no mount of its own; if it is a link, a second mount would even fail.
    is_mounted = system_mounts.is_system_path(Path(program)) or any(map(Path(program).is_relative_to, mounted))
    if program.startswith("/") and not is_mounted:
        paths.append(Path(program))
    return [PathMount(path) for path in paths]


def _bubblewrap_arguments(
    command_line: SandboxCommandLine, sandbox: Sandbox, folders: Sequence[BindMount], cwd: str
) -> list[str]:
    uid = str(system_mounts.SANDBOX_UID)
    arguments = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    arguments += [] if sandbox.network else ["--unshare-net"]
    arguments += ["--disable-userns", "--uid", uid, "--gid", uid, "--hostname", "sandbox", "--cap-drop", "ALL"]
    arguments += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in sandbox.environment.items():
        arguments += ["--setenv", name, value]
    arguments += system_mounts.system_mount_arguments(sandbox)
    for path, content in system_mounts.SYNTHETIC_FILES.items():
        arguments += ["--perms", "0444", "--file", str(command_line.descriptor_with(content)), path]
    mounts = [*folders, *_sandbox_mounts(sandbox)]
    arguments += _bind_arguments(command_line, [*mounts, *private_mounts(mounts, command_line)])
    command_line.writable_folders = tuple(Path(os.path.realpath(mount.path)) for mount in mounts if mount.writable)
    arguments += ["--seccomp", str(command_line.descriptor_with(_seccomp_filter(sandbox)))]
    return [*arguments, "--remount-ro", "/", "--chdir", cwd]


def _seccomp_filter(sandbox: Sandbox) -> bytes:
    program = seccomp.build_filter(unix_sockets=not sandbox.network)
    if program is None:
        raise NotStarted(
            f"There is no filter of system calls for {platform.machine()}, so that commands cannot run here."
        )
    return program


def _sandbox_mounts(sandbox: Sandbox) -> list[PathMount]:
    read_only = [PathMount(Path(path)) for path in sandbox.read]
    writable = [PathMount(Path(path), writable=True) for path in sandbox.write]
    return read_only + writable


def _bind_arguments(command_line: SandboxCommandLine, folders: Sequence[BindMount]) -> list[str]:
    """Mount outer folders first, so that the mount of an inner folder decides whether that folder is writable."""
    arguments: list[str] = []
    for mount in sorted(folders, key=lambda mount: len(mount.path.parts)):
        refuse_unsafe_path(mount.path)
        if isinstance(mount, HideableMount) and mount.hidden:
            arguments += _mask_arguments(mount.path)
            continue
        descriptor = command_line.descriptor_of(mount)
        if any(outer.writable and outer.path in mount.path.parents for outer in folders):
            _refuse_moved(mount.path, descriptor)
        arguments += ["--bind-fd" if mount.writable else "--ro-bind-fd", str(descriptor), str(mount.path)]
    return arguments


def _mask_arguments(path: Path) -> list[str]:
    if path.is_dir():
        return ["--perms", "0500", "--tmpfs", str(path), "--remount-ro", str(path)]
    # Bind mounts are `nodev`: the device node is there, and opening it fails.
    return ["--ro-bind", "/dev/null", str(path)]


def _refuse_moved(path: Path, descriptor: int) -> None:
    """Refuse a path inside a writable folder that a command has moved and, for example, replaced by a link."""
    if os.readlink(f"/proc/self/fd/{descriptor}") != str(path):
        raise NotStarted(f"{path} is not where it was: it has been moved, or something else is in its place.")


def refuse_unsafe_path(path: Path) -> None:
    """Refuse to mount a path from which a program could reach the whole machine."""
    if str(path) in _UNSAFE_PATHS or any(path.is_relative_to(folder) for folder in _UNSAFE_PATHS[1:]):
        raise DefinitionError(
            f"A sandbox cannot show {path}.", fix="name a folder with only the files that are needed."
        )


def _shell_wrapper(argv: Sequence[str], sandbox: Sandbox, stdin: bool, gated: bool) -> list[str]:
    """The shell that runs first in the sandbox: it sets limits, waits at the gate, and executes the program."""
    gate = "echo; read -r _ || exit 125" if gated else ""
    execute = 'exec "$@"' if stdin else 'exec "$@" </dev/null'
    script = "\n".join([_ulimit_script(sandbox), gate, execute])
    return ["/bin/sh", "-c", script, "sh", *argv]


def _ulimit_script(sandbox: Sandbox) -> str:
    rlimits = sandbox.rlimits
    lines = [f"ulimit {option} {rlimits[name] // unit} || exit 125" for name, (option, unit) in _ULIMIT_OPTIONS.items()]
    # bash limits processes with -u, dash with -p.
    lines.append("ulimit -u {0} 2>/dev/null || ulimit -p {0} || exit 125".format(rlimits["NPROC"]))
    # When the machine runs out of memory, the kernel kills sandboxed programs first.
    lines.append("{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null")
    return "\n".join(lines)


@cache
def check_bubblewrap() -> None:
    """Raise `NotStarted`, with the remedy, unless bubblewrap can start a program on this machine."""
    with build_command_line(["true"], cwd="/") as command_line:
        try:
            completed = subprocess.run(
                command_line.argv,
                pass_fds=command_line.pass_fds,
                env={},
                capture_output=True,
                timeout=_CHECK_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NotStarted(f"Commands run inside bubblewrap only, and it cannot start here: {error}.") from error
    if completed.returncode:
        reason = _last_line(completed.stderr) or f"exit code {completed.returncode}"
        raise NotStarted(
            f"Commands run inside bubblewrap only, and it cannot start here: {reason}. The machine has to allow user "
            "namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, an AppArmor profile)."
        )


@cache
def find_bubblewrap() -> str:
    """The path of a bubblewrap that has all required options; raises `NotStarted`, with the remedy."""
    path = shutil.which("bwrap")
    if path is None:
        raise NotStarted(f"Commands run inside bubblewrap only, and there is none. {INSTALL_HINT}.")
    if missing := [option for option in _REQUIRED_OPTIONS if option not in _help_text(path)]:
        raise NotStarted(f"The installed bubblewrap does not know {missing[0]}. {INSTALL_HINT}, version 0.10 or newer.")
    return path


@cache
def _help_text(path: str) -> str:
    return subprocess.run([path, "--help"], capture_output=True, text=True, env={}, check=False).stdout
