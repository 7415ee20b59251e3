"""Reads OpenAPI documents: JSON or YAML, from a file, a URL or a dictionary. Blocking; the provider uses a thread."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command
from surehand.providers.openapi.document import Document, SourceFile, parse_version
from surehand.providers.openapi.document_limits import (
    MAX_DOCUMENT_VALUES,
    check_byte_count,
    check_expansion,
    check_json_value_count,
    too_many_values,
)

MAX_MERGED_ENTRIES = 1_000_000
"""Entries that the merge keys of a YAML file may copy: a few lines of them can stand for more than memory holds."""
MAX_YAML_DEPTH = 500
SEARCHED_CHARS = 1024 * 1024
_YAML_ANCHOR = re.compile(r"(?:^|[\s\[{,:])&[^\s]")


def load_mapping(document: Mapping[str, Any]) -> Document:
    """A document that a program holds already."""
    root = document if isinstance(document, dict) else dict(document)
    return Document(SourceFile(root), parse_version(root, "The dictionary"))


def load_file(path: Path) -> Document:
    """A document in a file. It may refer to files beside it."""
    resolved = path.expanduser().resolve()
    try:
        root = read_file(resolved)
    except OSError as error:
        raise DefinitionError(f"{path} cannot be read: {error.strerror}.", fix="give the path of a document.") from None
    version = parse_version(root, str(path))
    return Document(SourceFile(root, resolved), version, read_file=read_file)


def load_text(content: bytes, url: str, requested_url: str) -> Document:
    """A document that was fetched from a URL, perhaps after redirects from the one that was requested."""
    root = parse_document(content, url)
    return Document(SourceFile(root), parse_version(root, url), url=url, requested_url=requested_url)


def read_file(path: Path) -> Any:
    """The parsed content of a file; raises `OSError` or `DefinitionError`."""
    check_byte_count(path.stat().st_size, path.name)
    return parse_document(path.read_bytes(), path.name)


def parse_document(content: bytes, label: str) -> Any:
    """Parse JSON, or YAML if it is none."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DefinitionError(f"{label} is not text in UTF-8.", fix="save it as UTF-8.") from None
    if text[:1_000].lstrip()[:1] in ("{", "["):
        check_json_value_count(text, label)
        try:
            return json.loads(text, object_hook=_same_object)
        except (ValueError, RecursionError) as error:
            json_problem = str(error) or type(error).__name__
        try:  # YAML may begin with a brace, too
            return parse_yaml(text, label)
        except DefinitionError:
            raise DefinitionError(f"{label} is not JSON: {json_problem}.", fix="correct the document.") from None
    return parse_yaml(text, label)


def _same_object(value: dict[str, Any]) -> dict[str, Any]:
    """The object itself. The parser is one long call of C code, and other threads only run while Python code does."""
    return value


def parse_yaml(text: str, label: str) -> Any:
    """Parse YAML as version 1.2 of it reads scalars: `on` and dates are texts, and every key is a text."""
    try:
        import yaml  # type: ignore[import-untyped]  # an extra, and PyYAML has no type hints
    except ImportError:
        raise DefinitionError(f"{label} is YAML, which needs PyYAML.", fix=f"{install_command('cli')}.") from None
    loader = _loader_class(yaml, label)(text)
    try:
        root = loader.get_single_data()
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise DefinitionError(f"{label} is neither JSON nor YAML: {problem}.", fix="correct the document.") from None
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"{label} cannot be read: {error}.", fix="correct the document.") from None
    finally:
        loader.dispose()
    if _has_anchor(text):
        check_expansion(root, label)
    return root


def _has_anchor(text: str) -> bool:
    """Whether a value of YAML may have an alias."""
    # In pieces: one search is one call of C code, during which no other thread runs.
    starts = range(0, len(text), SEARCHED_CHARS)
    return any(_YAML_ANCHOR.search(text, max(start - 2, 0), start + SEARCHED_CHARS) for start in starts)


def _loader_class(yaml: Any, label: str) -> Any:
    """A loader over libyaml, if PyYAML was built with it: it is ten times as fast."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class DocumentLoader(base):  # type: ignore[misc]  # the base is known only now
        """Reads the scalars of JSON as such, and everything else as text."""

        merged_entries = 0
        value_count = 0
        depth = 0

        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
            self.value_count += 1
            if self.value_count > MAX_DOCUMENT_VALUES:
                raise too_many_values(label)
            return super().resolve(kind, value, implicit)

        def descend_resolver(self, current_node: Any, current_index: Any) -> None:
            # libyaml goes down in C, and would end the process at the end of the stack.
            self.depth += 1
            if self.depth > MAX_YAML_DEPTH:
                raise ValueError(f"it is nested deeper than {MAX_YAML_DEPTH} levels")
            super().descend_resolver(current_node, current_index)

        def ascend_resolver(self) -> None:
            self.depth -= 1
            super().ascend_resolver()

        def flatten_mapping(self, node: Any) -> None:
            super().flatten_mapping(node)
            self.merged_entries += len(node.value)
            if self.merged_entries > MAX_MERGED_ENTRIES:
                raise ValueError("its merge keys stand for too many values")

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            self.flatten_mapping(node)
            return {
                str(key_node.value): self.construct_object(value_node, deep=deep) for key_node, value_node in node.value
            }

    resolvers = {
        first: [(tag, pattern) for tag, pattern in entries if tag not in _REPLACED_TAGS]
        for first, entries in base.yaml_implicit_resolvers.items()
    }
    DocumentLoader.yaml_implicit_resolvers = resolvers

    words = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
    DocumentLoader.add_implicit_resolver("tag:yaml.org,2002:bool", words, list("tTfF"))
    return DocumentLoader


_REPLACED_TAGS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
"""YAML 1.1 reads `no` as false and `2020-01-01` as a date; neither is meant in an OpenAPI document."""
