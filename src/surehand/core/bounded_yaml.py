"""Parses YAML of bounded size, for configuration files and files of MCP servers.

A few lines of anchors and merge keys can stand for more values than memory can hold: `a1: &a1 {<<: [*a0, *a0]}` doubles
its predecessor. PyYAML copies the merged entries, and every reader of a configuration walks shared values again at each
place. So the size with all anchors expanded is computed first, in one pass over the nodes.
"""

from __future__ import annotations

from typing import Any

MAX_EXPANDED_VALUES = 100_000
"""Values of a file, those behind anchors counted at each place where they are used."""


class YamlTooLarge(ValueError):
    """The file stands for too many values; `line` is where the first part of that size begins."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


def compose_yaml(text: str) -> Any:
    """The PyYAML node of a document, which knows the lines of its values; None if the document is empty.

    Raises `YamlTooLarge`, `yaml.YAMLError`, `ValueError` or `RecursionError`.
    """
    import yaml  # type: ignore[import-untyped]  # an extra, and PyYAML has no type hints

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
    finally:
        loader.dispose()
    if node is not None:
        _expanded_size(node, {})
    return node


def construct_yaml(node: Any) -> Any:
    """The value of a node of `compose_yaml`. Merge keys are merged in the node itself, which changes it."""
    import yaml  # an extra

    return None if node is None else yaml.SafeLoader("").construct_document(node)


def _expanded_size(node: Any, known_sizes: dict[int, int | None]) -> int:
    """How many values a node stands for. Sizes are remembered by node, None while one is being computed."""
    line = node.start_mark.line + 1
    if id(node) in known_sizes:
        size = known_sizes[id(node)]
        if size is None:
            raise YamlTooLarge("an anchor contains itself", line)
        return size
    known_sizes[id(node)] = None  # seen again before the size is known: the node contains itself
    size = 1
    if node.id == "mapping":
        children = [part for entry in node.value for part in entry]
    else:
        children = node.value if node.id == "sequence" else []
    for child in children:
        size += _expanded_size(child, known_sizes)
    if size > MAX_EXPANDED_VALUES:
        raise YamlTooLarge(f"anchors and merge keys expand to more than {MAX_EXPANDED_VALUES:,} values", line)
    known_sizes[id(node)] = size
    return size
