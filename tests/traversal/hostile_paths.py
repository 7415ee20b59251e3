"""Generates paths that try to leave the workspace by every known trick."""

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
INSIDE_TARGETS = ("inside.txt", "sub/inside.txt", "sub")
"""Allowed targets, which show that the tools work at all."""
READ_ONLY_TARGETS = (
    "etc/passwd",
    "etc/hostname",
    "proc/self/environ",
    "etc",
    "proc/self/fd/0",
    "dev/zero",
    "proc/self/mem",
)
"""Targets for reading tools only, because a writing tool could do harm if it got there."""


def hostile_paths(base: Path, count: int, *, seed: int = 0, harmless: bool = True) -> list[str]:
    """Generate `count` different paths. With `harmless`, all name files of the test."""
    generator = random.Random(seed)
    targets = _targets(base, harmless)
    prefixed = [f"{start}{target}" for start, target in product(STARTS, targets)]
    paths = dict.fromkeys([*targets, *generator.sample(prefixed, min(len(prefixed), count // 2))])
    while len(paths) < count:
        paths[generator.choice((_climb, _combine))(generator, targets)] = None
    return list(paths)[:count]


def _targets(base: Path, harmless: bool) -> list[str]:
    absolute = [f"{base}/{target}" for target in TARGETS]
    evil = [f"{base}/allowed_evil/secret.txt", f"{base}/allowed/../secret.txt", f"{base}/allowed/../outside"]
    return [*INSIDE_TARGETS, *TARGETS, *absolute, *evil, *(() if harmless else READ_ONLY_TARGETS)]


def _climb(generator: random.Random, targets: list[str]) -> str:
    """A path that goes up some folders and down to a target."""
    return (generator.choice(DOTS) + generator.choice(SLASHES)) * generator.choice(DEPTHS) + generator.choice(targets)


def _combine(generator: random.Random, targets: list[str]) -> str:
    """A random combination of start, climb, target and end."""
    slash = generator.choice(SLASHES)
    climb = "".join(
        generator.choice(DOTS[:1] * 5 + DOTS) + slash for _ in range(generator.choice((0, 1, 1, 2, 2, 3, 6, 12)))
    )
    target = generator.choice(targets)
    if generator.random() < 0.3:
        target = target.replace("/", generator.choice(SLASHES))
    if generator.random() < 0.1:
        target = "".join(f"%{ord(letter):02x}" if generator.random() < 0.3 else letter for letter in target)
    return generator.choice(STARTS) + climb + target + generator.choice(ENDS)
