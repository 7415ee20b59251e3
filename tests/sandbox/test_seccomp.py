"""The seccomp filter, interpreted step by step like in the kernel, so that both architectures are tested."""

import errno
import os
import struct

import pytest

from surehand.sandbox.seccomp import ARCHITECTURES, REFUSED_SYSCALLS, build_filter

ALLOWED, REFUSAL = 0x7FFF0000, 0x00050000
CALLS = {"x86_64": {"read": 0, "clone": 56, "ioctl": 16, "socket": 41, "openat": 257, "execve": 59},
         "aarch64": {"read": 63, "clone": 220, "ioctl": 29, "socket": 198, "openat": 56, "execve": 221}}  # fmt: skip
NEW_USER, NEW_NAMESPACE, THREAD = 0x10000000, 0x20000, 0x3D0F00


def answer(machine, number, *arguments, architecture=None, unix_sockets=True):
    """The answer of the filter to a system call: 0 to allow it, or the error number."""
    filled = [*arguments, *[0] * (6 - len(arguments))]
    told = ARCHITECTURES[machine][0] if architecture is None else architecture
    data = struct.pack("=IIQ6Q", number, told, 0, *filled)
    steps = list(struct.iter_unpack("=HBBI", build_filter(unix_sockets=unix_sockets, machine=machine)))
    at, loaded = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, value)
            case 0x06:
                assert value == ALLOWED or value & 0xFFFF0000 == REFUSAL
                return 0 if value == ALLOWED else value & 0xFFFF
            case 0x15:
                at += if_true if loaded == value else if_false
            case 0x35:
                at += if_true if loaded >= value else if_false
            case 0x45:
                at += if_true if loaded & value else if_false


machines = pytest.mark.parametrize("machine", ARCHITECTURES)


@machines
def test_dangerous_system_calls_are_refused_and_others_allowed(machine):
    column = ARCHITECTURES[machine][1]
    refused = {numbers[column] for numbers in REFUSED_SYSCALLS.values()} - {None}

    assert {number for number in range(500) if answer(machine, number) == errno.EPERM} == refused
    assert answer(machine, CALLS[machine]["execve"]) == 0


@machines
def test_processes_may_be_created_but_no_namespaces(machine):
    clone = CALLS[machine]["clone"]

    assert answer(machine, clone, THREAD) == 0
    assert answer(machine, clone, NEW_USER | 17) == errno.EPERM
    assert answer(machine, clone, NEW_NAMESPACE | 17) == errno.EPERM
    assert answer(machine, 435) == errno.ENOSYS  # clone3 hides its flags; C libraries fall back on clone


MODES = {"x86_64": [(90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2), (83, 1), (258, 2)],
         "aarch64": [(52, 1), (53, 2), (452, 2), (33, 2), (34, 2)]}  # fmt: skip
OPENING = {"x86_64": [(2, 1), (257, 2)], "aarch64": [(56, 2)]}


@machines
def test_no_system_call_sets_the_set_uid_bit(machine):
    for number, mode in MODES[machine]:
        before = [0o7777] * mode
        assert answer(machine, number, *before, 0o755) == 0
        assert answer(machine, number, *before, 0o4755) == errno.EPERM
        assert answer(machine, number, *before, 0o2755) == errno.EPERM
        assert answer(machine, number, *before, 0o1777) == 0


@machines
@pytest.mark.parametrize("making", [os.O_CREAT, os.O_TMPFILE])
def test_open_cannot_create_a_set_uid_file(machine, making):
    for number, flags in OPENING[machine]:
        before = [0] * flags
        assert answer(machine, number, *before, os.O_RDWR | making, 0o644) == 0
        assert answer(machine, number, *before, os.O_RDWR | making, 0o4755) == errno.EPERM
        assert answer(machine, number, *before, os.O_RDWR, 0o7777) == 0  # no mode is meant
    assert answer(machine, 437) == errno.ENOSYS


@machines
@pytest.mark.parametrize(
    ("family", "error"), [(1, 0), (2, 0), (10, 0), (16, 0), (17, 97), (38, 97), (40, 97), (45, 97)]
)
def test_only_common_socket_families_are_allowed(machine, family, error):
    assert answer(machine, CALLS[machine]["socket"], family, 1) == error


@machines
def test_unix_sockets_are_refused_with_a_shared_network(machine):
    assert answer(machine, CALLS[machine]["socket"], 1, 1, unix_sockets=False) == errno.EAFNOSUPPORT
    assert answer(machine, CALLS[machine]["socket"], 2, 1, unix_sockets=False) == 0


@machines
def test_ioctls_that_type_into_a_terminal_are_refused(machine):
    ioctl = CALLS[machine]["ioctl"]

    assert answer(machine, ioctl, 0, 0x5412) == errno.EPERM
    assert answer(machine, ioctl, 0, 0x100005412) == errno.EPERM  # the kernel looks at the lower half only
    assert answer(machine, ioctl, 0, 0x541C) == errno.EPERM
    assert answer(machine, ioctl, 0, 0x5413) == 0


@machines
def test_system_calls_of_another_architecture_are_refused(machine):
    assert answer(machine, CALLS[machine]["read"], architecture=0x40000003) == errno.EPERM


def test_system_calls_of_the_x32_abi_are_refused():
    assert answer("x86_64", 0x40000000 + 165) == errno.ENOSYS


def test_an_unknown_architecture_has_no_filter():
    assert build_filter(machine="riscv64") is None
