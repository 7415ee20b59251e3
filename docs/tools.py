"""Generates docs/reference/tools.md: every built-in tool as a model is shown it, from the code itself."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docs.generate import _bare as bare
from surehand import Tool, clock, data, env, files, memory, shell, todo, web
from surehand.builtin.agent.delegate import delegate
from surehand.builtin.agent.goals import goals
from surehand.builtin.agent.inbox import inbox
from surehand.builtin.agent.memories import memories
from surehand.builtin.agent.plans import plans
from surehand.builtin.agent.spaces import spaces
from surehand.builtin.agent.tasks import sessions, tasks
from surehand.builtin.web import search_engines
from surehand.core.description import parse_docstring

PAGE = Path(__file__).parent / "reference" / "tools.md"
HEAD = """# Built-in tools

Each factory is a function that returns a list of tools: `Runtime(data(), clock(), files("."))`. Import
`files shell web data clock env memory todo` from `surehand`, and the others from their own module: `tasks` and
`sessions` from `surehand.builtin.agent.tasks`, `goals` from `surehand.builtin.agent.goals`, and so on. Calls of
built-in tools are not shown in a space. `scripts/reference` generates this page from the code, and the tests compare
it with the code.
"""

FACTORIES: Mapping[str, Callable[..., list[Tool[..., Any]]]] = {
    factory.__name__: factory
    for factory in (
        files,
        shell,
        web,
        data,
        clock,
        env,
        memory,
        tasks,
        sessions,
        todo,
        goals,
        memories,
        plans,
        spaces,
        inbox,
        delegate,
    )
}
ARGUMENTS: Mapping[str, Callable[[Path], Mapping[str, Any]]] = {
    "files": lambda folder: {"workspace": folder, "names": "both"},
    "shell": lambda folder: {"workspace": folder},
    "web": lambda folder: {"search": search_engines.duckduckgo()},
    "env": lambda folder: {"allow": ["APP_*"]},
    "memory": lambda folder: {"folder": folder},
    "tasks": lambda folder: {"folder": folder},
    "sessions": lambda folder: {"folder": folder},
}
"""Arguments with which a factory builds all its tools in an empty folder; the other factories need none."""


def catalogue(folder: Path) -> dict[str, list[Tool[..., Any]]]:
    """The tools of every factory."""
    tools = {}
    for name, factory in FACTORIES.items():
        arguments = ARGUMENTS[name](folder) if name in ARGUMENTS else {}
        tools[name] = factory(**arguments)
    return tools


def page() -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as folder:
        made = catalogue(Path(folder))
        sets = _toolsets(made)
        parts = [HEAD, _overview(made), *(_factory(name, tools) for name, tools in made.items()), sets]
    return "\n".join(parts).rstrip() + "\n"


def _overview(made: Mapping[str, list[Tool[..., Any]]]) -> str:
    rows = [
        f"| [`{name}`](#{name}) | {', '.join(f'`{tool.name}`' for tool in tools)} |" for name, tools in made.items()
    ]
    return "\n".join(["| factory | tools |", "|---|---|", *rows, ""])


def _factory(name: str, tools: list[Tool[..., Any]]) -> str:
    function = FACTORIES[name]
    head = [f"## `{name}`\n", f"`{name}{_signature(function)}`\n", f"{_said(function)}\n"]
    return "\n".join([*head, *map(_tool, tools)])


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    taken = [
        p.replace(annotation=bare(p.annotation), default=_default(p.default)) for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=taken, return_annotation=inspect.Signature.empty))


class _Named:
    """A default that would show its whole content."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _default(default: Any) -> Any:
    import os
    import time

    known = {id(os.environ): "os.environ", id(time.time): "time.time"}
    return _Named(known[id(default)]) if id(default) in known else default


def _said(function: Callable[..., Any]) -> str:
    """The docstring, its arguments as a list."""
    doc = parse_docstring(inspect.getdoc(function))
    listed = "".join(f"\n- `{name}`: {told}" for name, told in doc.parameters.items())
    return doc.description + (f"\n{listed}" if listed else "")


def _tool(tool: Tool[..., Any]) -> str:
    effects = (
        f"effects {_words(sorted(tool.effects))}" if tool.effects else "changes only what its caller keeps for itself"
    )
    facts = [effects, f"category `{tool.category}`"]
    facts += ["repeatable"] if tool.repeatable else []
    facts += [f"toolsets {_words(tool.presentation.toolsets)}"] if tool.presentation.toolsets else []
    facts += [f"also called {_words(tool.aliases)}"] if tool.aliases else []
    facts += [] if tool.presentation.listed else ["called by name only"]
    parts = [f"### `{tool.name}`\n", f"{tool.description}\n", f"{', '.join(facts).capitalize()}.\n"]
    return "\n".join([*parts, _parameters(tool.schema)])


def _words(names: Any) -> str:
    return " ".join(f"`{name}`" for name in names)


def _parameters(schema: Mapping[str, Any]) -> str:
    rows = list(_rows(schema, schema, ""))
    if not rows:
        return "It takes nothing.\n"
    return "\n".join(["| parameter | type | default | what it is |", "|---|---|---|---|", *rows, ""])


def _rows(schema: Mapping[str, Any], root: Mapping[str, Any], before: str) -> list[str]:
    rows = []
    for name, field in schema.get("properties", {}).items():
        needed = name in schema.get("required", ())
        default = "required" if needed else f"`{_json(field['default'])}`" if "default" in field else ""
        cells = [
            f"`{before}{name}`",
            _escaped(_type(field, root)),
            _escaped(default),
            _escaped(field.get("description", "")),
        ]
        rows.append(f"| {' | '.join(cells)} |")
        inner, mark = _inner(field, root)
        rows += _rows(inner, root, f"{before}{name}{mark}.") if inner else []
    return rows


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _resolved(field: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    ref = field.get("$ref", "")
    return {**root["$defs"][ref.rpartition("/")[2]], **field} if ref else field


def _choices(field: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a value may be, without null: a default says that already."""
    several = field.get("anyOf") or field.get("oneOf") or [field]
    return [each for each in (_resolved(one, root) for one in several) if each.get("type") != "null"]


def _inner(field: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    for choice in _choices(_resolved(field, root), root):
        if "properties" in choice:
            return choice, ""
        items = _resolved(choice.get("items", {}), root) if isinstance(choice.get("items"), Mapping) else {}
        if "properties" in items:
            return items, "[]"
    return None, ""


def _type(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_one(choice, root) for choice in _choices(_resolved(field, root), root)))


_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "minLength": "not empty",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}


def _one(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "enum" in field or "const" in field:
        return " ".join(f"`{_json(value)}`" for value in field.get("enum", [field.get("const")]))
    kind = str(field.get("type", "any"))
    if kind == "array":
        kind = f"list of {_type(field.get('items', {}), root)}"
    limits = [text.format(f"{field[word]:,}".removesuffix(".0")) for word, text in _LIMITS.items() if word in field]
    return f"{kind} ({', '.join(limits)})" if limits else kind


def _toolsets(made: Mapping[str, list[Tool[..., Any]]]) -> str:
    sets: dict[str, list[str]] = {}
    for tools in made.values():
        for tool in tools:
            for name in tool.presentation.toolsets:
                sets.setdefault(name, []).append(f"`{tool.name}`")
    rows = [f"| `{name}` | {', '.join(names)} |" for name, names in sorted(sets.items())]
    head = "## Toolsets\n\n`runtime.describe(toolset=...)` shows a model one of these selections.\n"
    return "\n".join([head, "| toolset | tools |", "|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
