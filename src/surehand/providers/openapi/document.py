"""An OpenAPI document in memory: its version, and the values that its references point to.

References within the document and to files beside it are followed. Nothing is ever fetched because a document says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from surehand.core.errors import DefinitionError

MAX_REF_CHAIN = 32
"""References that may lead from one to the next before a value is reached."""
_INDEX = re.compile(r"[0-9]{1,9}")
_VERSION = re.compile(r"(2\.0|3\.[0-2])(?:\.\d+)?(?:-\w+)?\Z")


class UnusableOperation(Exception):
    """One operation of a document cannot be imported; the message says what is wrong in the document."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """One file of a document: the main one, or one beside it that it refers to."""

    root: dict[str, Any]
    path: Path | None = None
    """None for a document that was given as a dictionary or fetched from a URL."""
    label: str = ""
    """Its path relative to the main file; empty for the main one."""


@dataclass(frozen=True, slots=True)
class Located:
    """A value of a document, and the file in which its own references are read."""

    value: Any
    source: SourceFile
    ref: str = ""
    """The reference that led here last; empty for a value that was written in place."""


@dataclass(slots=True, eq=False)
class Document:
    """An OpenAPI document with the files that it refers to, which are read when they are first needed."""

    main: SourceFile
    version: tuple[int, int]
    url: str = ""
    """Where it was fetched from; empty for a file or a dictionary."""
    requested_url: str = ""
    """The URL that the developer gave, which may have redirected to `url`."""
    read_file: Callable[[Path], Any] | None = None
    """Reads and parses a file beside the document; None if there are none."""
    _files: dict[Path, SourceFile] = field(default_factory=dict)
    _targets: dict[tuple[int, str], Located] = field(default_factory=dict)
    _anchors: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The schemas with an anchor or identifier of each file, by the identity of the file."""

    @property
    def root(self) -> dict[str, Any]:
        """The document itself."""
        return self.main.root

    @property
    def is_swagger(self) -> bool:
        """Whether it is of version 2.0, which writes parameters and bodies in another way."""
        return self.version == (2, 0)

    def resolve(self, value: Any, source: SourceFile) -> Located:
        """Follow references until a value is reached. Raises `UnusableOperation` for one that leads nowhere."""
        located = Located(value, source)
        for _ in range(MAX_REF_CHAIN):
            if not isinstance(located.value, dict):
                return located
            ref = located.value.get("$ref")
            if not isinstance(ref, str):
                return located
            located = self.find(ref, located.source)
        raise UnusableOperation(f"The reference {ref} leads to itself.")

    def find(self, ref: str, source: SourceFile) -> Located:
        """The target of one reference, which may be a reference again."""
        key = (id(source), ref)
        located = self._targets.get(key)
        if located is None:
            located = self._targets[key] = self._find(ref, source)
        return located

    def _find(self, ref: str, source: SourceFile) -> Located:
        location, _, fragment = ref.partition("#")
        pointer = unquote(fragment)
        named = self._anchors_of(source).get(location) if location else None
        if isinstance(named, dict) and (not pointer or pointer.startswith("/")):  # an `$id` of the same file
            return Located(_follow_pointer(named, pointer, ref), source, ref)
        target_file = self._open(location, source, ref) if location else source
        if pointer and not pointer.startswith("/"):
            anchors = self._anchors_of(target_file)
            if pointer not in anchors:
                raise UnusableOperation(f"The reference {ref} leads nowhere.")
            return Located(anchors[pointer], target_file, ref)
        return Located(_follow_pointer(target_file.root, pointer, ref), target_file, ref)

    def _anchors_of(self, file: SourceFile) -> dict[str, Any]:
        if id(file) not in self._anchors:
            self._anchors[id(file)] = _find_anchors(file.root)
        return self._anchors[id(file)]

    def _open(self, location: str, source: SourceFile, ref: str) -> SourceFile:
        """The file of an external reference, which must be beside the document or below its folder."""
        if "://" in location or location.startswith("//"):
            raise UnusableOperation(f"The reference {ref} leads to another host, and nothing is fetched.")
        if self.read_file is None or self.main.path is None or source.path is None:
            raise UnusableOperation(f"The reference {ref} leads to another file, and the document has no folder.")
        folder = self.main.path.parent
        try:
            path = (source.path.parent / unquote(location)).resolve()
        except (OSError, ValueError):  # a NUL character, or a loop of links
            raise UnusableOperation(f"The reference {ref!r} is not a path.") from None
        if path == self.main.path:
            return self.main
        if not path.is_relative_to(folder):
            raise UnusableOperation(f"The reference {ref} leads out of the document's folder.")
        if path not in self._files:
            try:
                content = self.read_file(path)
            except (OSError, DefinitionError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise UnusableOperation(f"The reference {ref} cannot be read: {reason}.") from None
            if not isinstance(content, dict):
                raise UnusableOperation(f"The reference {ref} leads to a file without an object in it.")
            self._files[path] = SourceFile(content, path, path.relative_to(folder).as_posix())
        return self._files[path]


def _follow_pointer(value: Any, pointer: str, ref: str) -> Any:
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")  # the escapes of a JSON Pointer
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise UnusableOperation(f"The reference {ref} leads nowhere.")
    return value


def _find_anchors(root: dict[str, Any]) -> dict[str, Any]:
    """The schemas with an `$anchor` or an absolute `$id`, to which a document of version 3.1 may refer by it."""
    components = root.get("components")
    schemas = components.get("schemas") if isinstance(components, dict) else None
    waiting: list[Any] = list(schemas.values()) if isinstance(schemas, dict) else []
    seen: set[int] = set()
    own = root.get("$self")  # of version 3.2
    found: dict[str, Any] = {own: root} if isinstance(own, str) and "://" in own else {}
    while waiting:
        value = waiting.pop()
        if not isinstance(value, (dict, list)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            for anchor in (value.get("$anchor"), value.get("$dynamicAnchor")):
                if isinstance(anchor, str):
                    found[anchor] = value
            identifier = value.get("$id")
            if isinstance(identifier, str) and "://" in identifier:
                found[identifier.removesuffix("#")] = value
            waiting.extend(value.values())
        else:
            waiting.extend(value)
    return found


def parse_version(root: Any, label: str) -> tuple[int, int]:
    """The version of a document. Raises `DefinitionError` for anything that is no OpenAPI document."""
    if not isinstance(root, dict):
        raise DefinitionError(f"{label} is no OpenAPI document: it is not an object.", fix="give an OpenAPI document.")
    written = root.get("openapi", root.get("swagger"))
    match = _VERSION.match(str(written).strip())
    if match is None:
        problem = f"{label} is no OpenAPI document that can be read: its version is {written!r:.40}."
        raise DefinitionError(problem, fix="give a document of version 2.0, 3.0, 3.1 or 3.2.")
    major, minor = match[1].split(".")
    return int(major), int(minor)
