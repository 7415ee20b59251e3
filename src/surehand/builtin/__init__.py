"""Built-in tools: each name here is a factory that gives a list of tools for a runtime."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surehand.builtin.clock import clock as clock
    from surehand.builtin.data import data as data
    from surehand.builtin.delegate import delegate as delegate
    from surehand.builtin.env import env as env
    from surehand.builtin.files import files as files
    from surehand.builtin.goals import goals as goals
    from surehand.builtin.inbox import inbox as inbox
    from surehand.builtin.memories import memories as memories
    from surehand.builtin.memory import memory as memory
    from surehand.builtin.plans import plans as plans
    from surehand.builtin.shell import shell as shell
    from surehand.builtin.spaces import spaces as spaces
    from surehand.builtin.task_log import TaskLog as TaskLog
    from surehand.builtin.tasks import sessions as sessions
    from surehand.builtin.tasks import tasks as tasks
    from surehand.builtin.todo import todo as todo
    from surehand.builtin.web import web as web
    from surehand.builtin.workspace import Workspace as Workspace

_HOMES = {
    "TaskLog": "task_log",
    "Workspace": "workspace",
    "clock": "clock",
    "data": "data",
    "delegate": "delegate",
    "env": "env",
    "files": "files",
    "goals": "goals",
    "inbox": "inbox",
    "memories": "memories",
    "memory": "memory",
    "plans": "plans",
    "sessions": "tasks",
    "shell": "shell",
    "spaces": "spaces",
    "tasks": "tasks",
    "todo": "todo",
    "web": "web",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list, though made and not written out


class _Package(ModuleType):
    """Importing `builtin.data` would put the module in place of the factory of that name; here the factory stays."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"surehand.builtin has no {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
