"""From a configuration and sources of tools to a runtime."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from surehand.assemble.builtin import built_in
from surehand.assemble.sources import Found, SourceError, load
from surehand.config.config import Config
from surehand.runtime.parts import Approver
from surehand.runtime.policy import Policy
from surehand.runtime.runtime import Runtime
from surehand.runtime.sources import flatten


def assemble(
    config: Config | None = None,
    *sources: Any,
    store: str | None = None,
    approver: Approver | None = None,
    environment: Mapping[str, str] | None = None,
) -> Runtime:
    """A runtime of what the configuration names and of further sources; it asks before anything but reading.

    Args:
        store: takes the place of the configuration's.
    """
    config = config or Config()
    environment = os.environ if environment is None else environment
    if store is None and config.store is not None:
        store = config.store.text(environment)
    found = [
        *built_in(config, environment, store),
        *_configured(config),
        *_servers(config, environment),
        *flatten(sources),
    ]
    return Runtime(
        *{id(item): item for item in found}.values(),  # a tool that two sources import is still one tool
        store=store,
        policy=Policy.default() if config.policy is None else config.policy,
        queues=config.queues,
        workspace=str(config.workspace.folder(environment)) if config.workspace else None,
        approver=approver,
        defaults=config.defaults,
    )


def _servers(config: Config, environment: Mapping[str, str]) -> Iterable[Found]:
    if config.mcp_servers is None:
        return []
    from surehand.assemble.mcp import mcp_servers  # loaded by those alone who have any

    return mcp_servers(config, environment)


def _configured(config: Config) -> Iterable[Found]:
    for source in config.tools:
        try:
            yield from load(source.text, folder=config.folder)
        except SourceError as error:
            raise source.error(str(error)) from error
