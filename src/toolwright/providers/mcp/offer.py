"""Offer: what a server offers, as far as it is allowed, can be used, and is what it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolwright.core.errors import Denied, NotFound
from toolwright.core.outcome import Failed
from toolwright.core.tool import Tool
from toolwright.providers.mcp.manifest import Manifest, Manifests
from toolwright.providers.mcp.options import Options
from toolwright.providers.mcp.routes.escaped import escaped
from toolwright.providers.mcp.trust.lock import Lock

log = logging.getLogger("toolwright")


class Offer:
    """From definitions as they come over the wire to tools."""

    def __init__(self, server: str, identity: str, options: Options) -> None:
        self._server, self._identity, self._options = server, identity, options
        self._lock = Lock(Path(options.lock) if options.lock is not None else None)
        self._manifests = _manifests(options)
        self._manifest: Manifest | None = None
        self.tools: list[Tool[..., Any]] = []
        self.definitions: dict[str, Mapping[str, Any]] = {}
        """As on the wire, by our names."""
        self.changed: dict[str, str] = {}
        """What changed in the tools that are held back, by our names."""
        self._unusable: dict[str, str] = {}
        self._checks: dict[str, Callable[[Any], str | None] | None] = {}
        self._taking: asyncio.Lock | None = None

    async def load(self) -> bool:
        """Whether it is known from an earlier time what the server offers."""
        if self._manifest is None and self._manifests is not None:
            found = await asyncio.to_thread(self._manifests.load, self._identity)
            if found is not None:
                await self.take(found, keep=False)
        return self._manifest is not None

    async def take(self, manifest: Manifest, *, keep: bool = True) -> bool:
        """What the server says now; whether that is something else than before."""
        async with self._turn():  # a connection that comes up tells of it, and so does whoever waited for that
            if keep and self._manifests is not None and self._manifest != manifest:
                await asyncio.to_thread(self._manifests.save, self._identity, manifest)
            changes = await asyncio.to_thread(self._lock.look, self._server, self._identity, manifest.tools)
            held = {name: change.summary for name, change in changes.items()}
            if self._manifest == manifest and held == self._held:
                return False
            built = copy(self)  # beside the loop: thousands of tools take seconds
            built._manifest, built._held = manifest, held
            await asyncio.to_thread(built._build, manifest)
            vars(self).update({name: vars(built)[name] for name in _BUILT})
            return True

    @property
    def known(self) -> bool:
        """Whether it is known what the server offers."""
        return self._manifest is not None

    def says(self, manifest: Manifest) -> bool:
        """Whether a listing is what is known already."""
        return self._manifest is not None and self._manifest.tools == manifest.tools

    def _turn(self) -> asyncio.Lock:
        """One at a time; made anew for each event loop, because a program may have several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._taking is None or self._loop is not loop:
            self._taking, self._loop = asyncio.Lock(), loop
        return self._taking

    _loop: asyncio.AbstractEventLoop | None = None
    _held: Mapping[str, str] = {}
    """What changed in the tools that are held back, by their names on the wire."""

    def _build(self, manifest: Manifest) -> None:
        from toolwright.providers.mcp.definition import allowed, names_of

        self.tools, self.definitions, self.changed, self._unusable, self._checks = [], {}, {}, {}, {}
        wires = {str(each.get("name")): each for each in reversed(manifest.tools)}  # of two of a name the first counts
        taken = [each for wire, each in wires.items() if allowed(wire, self._options.allow, self._options.deny)]
        names = names_of(taken)
        for definition in reversed(taken):
            self._add(definition, names.get(str(definition.get("name"))))

    def _add(self, definition: Mapping[str, Any], name: str | None) -> None:
        from toolwright.providers.mcp.definition import Unusable, tool_of

        wire = str(definition.get("name"))
        try:
            made = tool_of(definition, server=self._server, name=name, effects=self._options.effects)
        except Unusable as error:
            log.warning("%s of %s is left out: %s", escaped(wire, 100), self._server, error)
            self._unusable[wire] = str(error)
            return
        self.definitions[made.name] = definition
        if made.repeatable and self._options.retries:
            made = made.evolve(limits=replace(made.limits, retries=self._options.retries))
        if (change := self._held.get(wire)) is not None:
            self.changed[made.name] = change
            made = made.evolve(face=replace(made.face, listed=False))
        made.compile()
        self.tools.append(made)

    async def look_again(self, name: str) -> bool:
        """Whether a tool that was held back is so no longer, because somebody accepted it meanwhile."""
        return name in self.changed and self._manifest is not None and await self.take(self._manifest)

    def wire_name(self, name: str) -> str:
        """What the server calls a tool; raises for one that may not be called."""
        if (what := self.changed.get(name)) is not None:
            raise Held(
                f"{name} of {self._server} is held back, because its definition has changed since it was accepted "
                f"({what}). {self._remedy()}"
            )
        if name not in self.definitions:
            raise NotFound(f"{self._server} offers no {name} any more.")
        return str(self.definitions[name]["name"])

    def _remedy(self) -> str:
        if self._options.lock is None:
            return "What it was is pinned while this program runs; with a lock file people can accept what it is now."
        return "A person looks at it with `toolwright lock diff` and accepts it with `toolwright lock accept`."

    def is_repeatable(self, wire: str) -> bool:
        """Whether a tool, by its name on the wire, may run twice without harm."""
        names = {name for name, definition in self.definitions.items() if definition.get("name") == wire}
        return any(tool.repeatable for tool in self.tools if tool.name in names)

    def interrupted(self, wire: str) -> Failed:
        """What becomes of a call whose question nobody can answer any more."""
        why = f"{self._server} no longer waits for this answer: it, or this program, was started anew."
        if self.is_repeatable(wire):
            return Failed("interrupted", f"{why} Call the tool again.", executed=True)
        return Failed("unknown_effect", f"{why} Whether anything was done is not known.", executed=True)

    def check_of(self, name: str) -> Callable[[Any], str | None] | None:
        """What looks at a tool's structured answers, where it says how these look."""
        if name not in self._checks:
            from toolwright.providers.mcp.content import checker_of

            self._checks[name] = checker_of(self.definitions.get(name, {}).get("outputSchema"))
        return self._checks[name]

    @property
    def missing(self) -> str:
        """Which tools are held back or cannot be used, and why."""
        held = [f"{name} is held back: its definition has changed ({what})." for name, what in self.changed.items()]
        useless = [f"{escaped(name, 100)} cannot be used: {why}" for name, why in self._unusable.items()]
        return "\n".join([*held, *useless])

    def instructions(self) -> str:
        """The server's own words, and its prompts."""
        if self._manifest is None:
            return ""
        from toolwright.providers.mcp.prose import told

        prompts = [_prompt(prompt) for prompt in self._manifest.prompts]
        parts = [told(self._manifest.instructions), "Prompts:\n" + "\n".join(prompts) if prompts else ""]
        return "\n\n".join(part for part in parts if part)


_BUILT = ("_manifest", "_held", "tools", "definitions", "changed", "_unusable", "_checks")


class Held(Denied):
    """A tool that is held back: nothing was sent."""

    executed = False


def _prompt(prompt: Mapping[str, Any]) -> str:
    from toolwright.providers.mcp.prose import line

    described = line(prompt.get("description") or prompt.get("title"), 500)
    return f"- {line(prompt.get('name'))}{f': {described}' if described else ''}"


def _manifests(options: Options) -> Manifests | None:
    if options.manifest is False:
        return None
    return Manifests(None if options.manifest is True else Path(options.manifest))
