"""Known sandbox escapes: each command prints ESCAPED if it succeeds, and none may."""

import asyncio
import os
import shutil
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from tests.requirements import needs
from tests.sandbox.inside import run_in_sandbox

pytestmark = [needs("bubblewrap"), pytest.mark.timeout(30)]  # ten commands at once, on a busy machine
SECRET = "s3cret-of-the-host"


@dataclass(frozen=True)
class Host:
    """Targets on the host; commands refer to them by name."""

    outside: Path
    port: int
    udp: int
    abstract: str
    victim: int
    shm: Path
    tmp: Path

    def fill_in(self, command: str) -> str:
        for name, value in vars(self).items():
            command = command.replace(f"@{name}@", str(value))
        return command


@pytest.fixture
def host(place, monkeypatch):
    """Servers on loopback, a process, and files outside the workspace, as targets of an escape."""
    monkeypatch.setenv("HOST_SECRET", SECRET)
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"surehand-{os.urandom(6).hex()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        by_path = stack.enter_context(socket.socket(socket.AF_UNIX))
        by_path.bind(str(place.outside / "socket"))
        by_path.listen()
        victim = stack.enter_context(subprocess.Popen(["sleep", "60"], env={"HOST_SECRET": SECRET}))
        stack.callback(victim.kill)
        shm, tmp = Path("/dev/shm") / name, Path("/tmp") / name
        for path in (shm, tmp):
            path.write_text(SECRET)
            stack.callback(path.unlink, missing_ok=True)
        if os.geteuid() == 0:
            shutil.copy("/usr/bin/id", place.root / "id-as-root")
            (place.root / "id-as-root").chmod(0o4755)
        yield Host(place.outside, tcp.getsockname()[1], udp.getsockname()[1], name, victim.pid, shm, tmp)
        assert victim.poll() is None
        assert (place.outside / "secret.txt").read_text().strip() == SECRET
        assert sorted(path.name for path in place.outside.iterdir()) == ["secret.txt", "socket"]
        with pytest.raises(BlockingIOError):
            udp.recv(100)


def python(code: str) -> str:
    prepared = "import ctypes, os, socket, struct, sys\nlibc = ctypes.CDLL(None, use_errno=True)"
    return f"python3 -SsE - <<'END'\n{prepared}\n{code}\nEND"


def connect(address: str) -> str:
    return python(f"socket.socket(socket.AF_UNIX).connect('{address}'); print('ESCAPED')")


def call(numbers: tuple[int, int], *arguments: object) -> str:
    """A system call by its number, on x86-64 and on 64-bit ARM."""
    number = numbers[0 if os.uname().machine == "x86_64" else 1]
    return python(f"print('ESCAPED' if libc.syscall({number}, {', '.join(map(str, arguments))}) >= 0 else 'refused')")


FOUND = f"grep -q {SECRET} && echo ESCAPED"
# Each by what it tries; those below work where there is no sandbox, which shows that they are rightly written.
PLAIN = {
    "read a file outside": f"cat @outside@/secret.txt | {FOUND}",
    "read it through a link": f"ln -s @outside@/secret.txt link; cat link | {FOUND}",
    "read it through a linked folder": f"ln -s @outside@ folder; cat folder/secret.txt | {FOUND}",
    "read it through a parent": f"cat ../../outside/secret.txt | {FOUND}",
    "read it through the working folder of a process": f"cat /proc/self/cwd/../../outside/secret.txt | {FOUND}",
    "give it a second name": "ln @outside@/secret.txt second && echo ESCAPED",
    "list the folder beside": "ls @outside@ | grep -q secret && echo ESCAPED",
    "find it by its content": f"grep -rs {SECRET} @outside@/.. | {FOUND}",
    "read the host's /tmp": f"cat @tmp@ | {FOUND}",
    "read the host's shared memory": f"cat @shm@ | {FOUND}",
    "read the host's users": "test -s /etc/shadow && echo ESCAPED",
    "read the host's name": f"test \"$(hostname)\" = {socket.gethostname()} && echo ESCAPED",
    "see a process of the host": "test -d /proc/@victim@ && echo ESCAPED",
    "read a process's environment": f"cat /proc/@victim@/environ | tr '\\0' '\\n' | {FOUND}",
    "read every environment": f"cat /proc/[0-9]*/environ | tr '\\0' '\\n' | {FOUND}",
    "signal a process of the host": "kill -0 @victim@ && echo ESCAPED",
    "connect to the host's loopback": "exec 3<>/dev/tcp/127.0.0.1/@port@ && echo ESCAPED",
    "connect to a socket outside": connect("@outside@/socket"),
    "connect to a socket without a file": connect("\\0@abstract@"),
    "look at the host's network": "test \"$(ls /sys/class/net | wc -l)\" -gt 0 && echo ESCAPED",
    "look at the host's devices": "ls /sys/block /sys/class >/dev/null && echo ESCAPED",
    "read the kernel's addresses": "grep -qv '^0000000000000000' /proc/kallsyms && echo ESCAPED",
    "read the kernel's command line": "test -s /proc/cmdline && cat /proc/cmdline && echo ESCAPED",
    "write outside": "echo x > @outside@/made; test -s @outside@/made && rm @outside@/made && echo ESCAPED",
}  # fmt: skip
PRIVILEGED = {
    "read the environment of the first process": f"cat /proc/1/environ | tr '\\0' '\\n' | {FOUND}",
    "go through the first process's root": f"cat /proc/1/root@outside@/secret.txt | {FOUND}",
    "go through any process's root": f"cat /proc/[0-9]*/root@outside@/secret.txt | {FOUND}",
    "write to the first process's memory": "test -w /proc/1/mem && echo ESCAPED",
    "use the first process's descriptors": f"cat /proc/1/fd/[3-9]* | {FOUND}; ls /proc/1/fd/3 && echo ESCAPED",
    "end everything": "kill -9 -1; kill -9 1; kill -9 @victim@ && echo ESCAPED",
    "change a program": "echo x >> /usr/bin/env && echo ESCAPED",
    "change the system's files": "echo x:x:0:0::/:/bin/sh >> /etc/passwd && echo ESCAPED",
    "put a program beside": "cp /bin/true /usr/local/bin/ls && echo ESCAPED",
    "make the system writable": "mount -o remount,rw /usr && echo ESCAPED; touch /usr/x && echo ESCAPED",
    "mount something": "mkdir m; mount -t tmpfs none m && echo ESCAPED",
    "mount the host's disk": "mkdir m; for d in /dev/vda /dev/sda /dev/nvme0n1; do mount $d m && echo ESCAPED; done",
    "mount another /proc": "mkdir m; mount -t proc proc m && echo ESCAPED",
    "take a cover away": "umount -l /proc/sys && echo ESCAPED; umount /proc/1 && echo ESCAPED",
    "move to another root": "mkdir r; chroot r && echo ESCAPED; chroot / true && echo ESCAPED",
    "make namespaces": "for kind in -Ur -m -rn -p; do unshare $kind true && echo ESCAPED; done",
    "enter namespaces": "nsenter -t 1 -a true && echo ESCAPED; nsenter -t @victim@ -m true && echo ESCAPED",
    "become root": "su -c 'echo ESCAPED' </dev/null; sudo -n echo ESCAPED; setpriv --reuid 0 echo ESCAPED",
    "run a program as its owner": "test -x ../id-as-root && test $(../id-as-root -u) = 0 && echo ESCAPED",
    "give itself rights to a program": "cp /usr/bin/id own; chmod 4755 own; test $(./own -u) = 0 && echo ESCAPED",
    "leave a program that runs as its owner": (
        "cp /usr/bin/id own; for mode in 4755 2755 u+s g+s; do chmod $mode own && echo ESCAPED; done;"
        "install -m 4755 /usr/bin/id other && echo ESCAPED; cp -p /usr/bin/su third; test -u third && echo ESCAPED"
    ),
    "make a file that runs as its owner": python("os.close(os.open('own', os.O_CREAT, 0o4755)); print('ESCAPED')"),
    "give a program capabilities": "cp /usr/bin/id own; setcap cap_sys_admin+ep own && echo ESCAPED",
    "give a file away": "touch f; chown 0:0 f && echo ESCAPED; chown 65534 f && echo ESCAPED",
    "make a device": "mknod disk b 254 0 && echo ESCAPED; mknod mem c 1 1 && echo ESCAPED",
    "read a disk": "for d in /dev/vda /dev/sda /dev/mem /dev/kmem /dev/port; do head -c 1 $d && echo ESCAPED; done",
    "set what the kernel runs": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern && echo ESCAPED",
    "set what the kernel loads": "echo /tmp/x > /proc/sys/kernel/modprobe && echo ESCAPED",
    "ask the kernel to do something": "echo b > /proc/sysrq-trigger && echo ESCAPED",
    "drop the machine's caches": "echo 1 > /proc/sys/vm/drop_caches && echo ESCAPED",
    "read the kernel's log": "dmesg && echo ESCAPED; head -c 1 /proc/kmsg && echo ESCAPED",
    "read the kernel's memory": "head -c 1 /proc/kcore && echo ESCAPED; cat /proc/keys && echo ESCAPED",
    "write to a control group": "mkdir -p /sys/fs/cgroup/x && echo ESCAPED; ls /sys/fs/cgroup/* && echo ESCAPED",
    "set the host's name": "hostname evil && echo ESCAPED",
    "set the clock": "date -s 2001-01-01 && echo ESCAPED",
    "listen to the network": python("socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('ESCAPED')"),
    "make up packets": python("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('ESCAPED')"),
    "talk to the machine's host": python("socket.socket(40, socket.SOCK_STREAM); print('ESCAPED')"),
    "use the kernel's ciphers": python("socket.socket(38, socket.SOCK_SEQPACKET); print('ESCAPED')"),
    "send a datagram to the host": "echo x > /dev/udp/127.0.0.1/@udp@; true",
    "type into the terminal": python("import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x'); print('ESCAPED')"),
    "open the terminal": "exec 3<>/dev/tty && echo ESCAPED",
    "trace a process": call((101, 117), 16, 1, 0, 0),
    "trace itself": call((101, 117), 0, 0, 0, 0),
    "read another process's memory": call((310, 270), 1, 0, 0, 0, 0, 0),
    "load a program into the kernel": call((321, 280), 5, 0, 0),
    "watch the processor": call((298, 241), 0, 0, -1, -1, 0),
    "catch page faults": call((323, 282), 1),
    "use the ring": call((425, 425), 8, "ctypes.create_string_buffer(120)"),
    "use the kernel's keys": call((250, 219), 0, -3, 0),
    "open a file by its handle": call((304, 265), -100, "ctypes.create_string_buffer(64)", 0),
    "load a module": call((313, 273), 0, b"", 0),
    "make a namespace by flags": call((56, 220), 0x10000011, 0, 0, 0, 0),
    "make a namespace by a structure": call((435, 435), "struct.pack('Q', 0x10000000) + bytes(80)", 88),
    "open a new tree": call((428, 428), -100, b"/", 1),
    "open a new file system": call((430, 430), b"tmpfs", 0),
    "restart the machine": call((169, 142), 0, 0, 0, 0),  # with wrong magic numbers, should it get through
}  # fmt: skip


ALL = PLAIN | PRIVILEGED
TEN = [list(ALL)[start : start + 10] for start in range(0, len(ALL), 10)]


async def run_escapes(place, host, name: str, **options):
    """Run each command in its own folder."""
    folder = place.root / name.replace(" ", "-").replace("/", "")
    folder.mkdir()
    return await run_in_sandbox(place, host.fill_in(ALL[name]), cwd=folder, **options)


async def escaped(place, host, names, **options) -> dict[str, str]:
    """The commands that escaped or printed the secret."""
    printed = await asyncio.gather(*(run_escapes(place, host, name, **options) for name in names))
    through = dict(zip(names, printed, strict=True))
    return {name: each.out for name, each in through.items() if "ESCAPED" in each.out or SECRET in each.out + each.err}


@needs("python in /usr")
@pytest.mark.parametrize("names", TEN, ids=lambda names: names[0].replace(" ", "-"))
async def test_no_escape_from_the_sandbox_works(place, host, names):
    assert await escaped(place, host, names) == {}


@pytest.mark.long
@needs("python in /usr")
@pytest.mark.parametrize("names", [list(PLAIN)[::2], list(PLAIN)[1::2]], ids=["even", "odd"])
async def test_the_escapes_work_without_a_sandbox(place, host, names):
    """Shows that the commands above are correct: the test must not pass because of a misspelt command."""
    through = await escaped(place, host, names, sandbox=UNPROTECTED)

    machine_dependent = {"read the host's users", "read the kernel's addresses", "look at the host's devices",
                         "look at the host's network", "read the kernel's command line"}  # fmt: skip
    assert set(names) - set(through) <= machine_dependent


@needs("python in /usr")
async def test_a_sandbox_with_network_gains_nothing_else(place, host):
    names = ["connect to a socket without a file", "connect to a socket outside", "listen to the network",
             "talk to the machine's host", "read every environment", "read a file outside"]  # fmt: skip

    assert await escaped(place, host, names, sandbox=Sandbox(network=True)) == {}


async def test_a_sandbox_with_network_shares_the_network_of_the_host(place, host):
    printed = await run_escapes(place, host, "connect to the host's loopback", sandbox=Sandbox(network=True))

    assert "ESCAPED" in printed.out


async def test_a_command_has_no_capabilities_and_its_own_user(place):
    status = "grep -hE '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; cat /proc/self/uid_map"

    told = (await run_in_sandbox(place, status)).out.split()

    assert told[:8] == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert (told[8], told[10]) == ("1000", "1")
