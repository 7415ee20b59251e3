"""Paths that try to lead outside, in all known ways."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

DOTS = (
    "..", "%2e%2e", "%252e%252e", "%c0%ae%c0%ae", "\udcc0\udcae\udcc0\udcae", "\u2024\u2024", "\uff0e\uff0e", "\u2025",
    "..;", ".. ", " ..", "..\t", "...", "....", ". .", "..\n", ".%00.", "..%00", "..\0", ".\u200b.", "%u002e%u002e",
    "0x2e0x2e", "..%c0%af", "\u3002\u3002", ".%2e", "%2e.", "&#46;&#46;",
)  # fmt: skip
SLASHES = (
    "/", "//", "\\", "%2f", "%5c", "%252f", "%c0%af", "\u2215", "\u2044", "\uff0f", "/./", "\\/", "/%2e/",
    "\udcc0\udcaf", "%u2215", "/;/", "/sub/..",
)  # fmt: skip
STARTS = (
    "", "/", "./", "//", "///", "\\", "\\\\", "C:", "C:\\", "C:/", "file://", "file:///", "~", "~/", "~root/", "sub/",
    "sub/deep/", "in/", "up/", "out/", "out_abs/", "dot/", "loop/", "chain/", "root/", "proc/", "cwd/", "evil/",
    "dangling/", "hard/", "inside.txt/", " /", "\n/", "/proc/self/root/", "/proc/self/cwd/", "/proc/1/root/",
    "/dev/fd/3/", "\\\\?\\", "${PWD}/", "$HOME/", "`pwd`/", "-", "--", "\ufeff", "\u202e", "sub/up/", "sub/deep/far/",
)  # fmt: skip
ENDS = (
    "",
    "",
    "",
    "/",
    "/.",
    "\0",
    "\0.txt",
    "%00",
    "%00.txt",
    "\n",
    " ",
    ".",
    "::$DATA",
    "#",
    "?x",
    "//",
    "\\",
    ";x",
    "\r\n",
)
DEPTHS = (1, 2, 3, 8)
TARGETS = ("outside/secret.txt", "outside", "secret.txt", "allowed_evil/secret.txt", "outside/deep/secret.txt",
           "outside/new.txt", "allowed_evil", "new.txt")  # fmt: skip
INSIDE = ("inside.txt", "sub/inside.txt", "sub")
"""What may be reached, so that it is seen that the tools do work."""
READ_ONLY = ("etc/passwd", "etc/hostname", "proc/self/environ", "etc", "proc/self/fd/0", "dev/zero", "proc/self/mem")
"""Targets that only tools are tried on that cannot do harm, should they get there."""


def strings(base: Path, count: int, *, seed: int = 0, harmless: bool = True) -> list[str]:
    """So many different paths. With `harmless`, none names a file that is not ours."""
    chance, targets = random.Random(seed), _targets(base, harmless)
    begun = [f"{start}{target}" for start, target in product(STARTS, targets)]
    known = dict.fromkeys([*targets, *chance.sample(begun, min(len(begun), count // 2))])
    while len(known) < count:
        known[chance.choice((_climbing, _drawn))(chance, targets)] = None
    return list(known)[:count]


def _targets(base: Path, harmless: bool) -> list[str]:
    whole = [f"{base}/{target}" for target in TARGETS]
    evil = [f"{base}/allowed_evil/secret.txt", f"{base}/allowed/../secret.txt", f"{base}/allowed/../outside"]
    return [*INSIDE, *TARGETS, *whole, *evil, *(() if harmless else READ_ONLY)]


def _climbing(chance: random.Random, targets: list[str]) -> str:
    """Up, and down again."""
    return (chance.choice(DOTS) + chance.choice(SLASHES)) * chance.choice(DEPTHS) + chance.choice(targets)


def _drawn(chance: random.Random, targets: list[str]) -> str:
    """Anything with anything."""
    slash = chance.choice(SLASHES)
    climb = "".join(chance.choice(DOTS[:1] * 5 + DOTS) + slash for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 6, 12))))
    target = chance.choice(targets)
    if chance.random() < 0.3:
        target = target.replace("/", chance.choice(SLASHES))
    if chance.random() < 0.1:
        target = "".join(f"%{ord(letter):02x}" if chance.random() < 0.3 else letter for letter in target)
    return chance.choice(STARTS) + climb + target + chance.choice(ENDS)
