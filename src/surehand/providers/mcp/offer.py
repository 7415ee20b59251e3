"""Offer: what a server offers, as far as it is allowed, can be used, and is what it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surehand.core.errors import Denied, NotFound
from surehand.core.facets import Cache
from surehand.core.outcome import Failed
from surehand.core.sanitize import clean_line, clean_text, escape_line
from surehand.core.tool import Tool
from surehand.providers.mcp.addresses.address import EVERYONE, Who
from surehand.providers.mcp.manifest import Manifest, Manifests, place_of
from surehand.providers.mcp.options import Options
from surehand.providers.mcp.trust.change import Change
from surehand.providers.mcp.trust.lock import Lock
from surehand.providers.mcp.trust.said import INSTRUCTIONS, PROMPTS, SAID, instructions_in, prompts_in, said

if TYPE_CHECKING:
    from surehand.providers.mcp.content import Checker

log = logging.getLogger("surehand")

MOST_PROMPTS, MOST_MISSING, MOST_TOLD = 20, 10, 8_000
"""Prompts, and tools that are not there, that models are told of; and characters of all that a server tells them."""


class Offer:
    """From definitions as they come over the wire to tools."""

    def __init__(self, server: str, identity: str, options: Options) -> None:
        self._server, self._identity, self._options = server, identity, options
        self._lock = Lock(options.lock, frozen=options.frozen)
        self._manifests = _manifests(options)
        self._manifest: Manifest | None = None
        self.source = EVERYONE
        """To whom the server has said it."""
        self.tools: list[Tool[..., Any]] = []
        self.definitions: dict[str, Mapping[str, Any]] = {}
        """As on the wire, by our names."""
        self.changed: dict[str, str] = {}
        """Why tools are held back, by our names."""
        self._unusable: dict[str, str] = {}
        self._checks: dict[str, Checker | None] = {}
        self._taking: asyncio.Lock | None = None

    async def load(self) -> bool:
        """Whether it is known from an earlier time what the server offers."""
        if self._manifest is None and self._manifests is not None:
            found = await asyncio.to_thread(self._manifests.load, self._identity)
            if found is not None:
                await self.take(found, keep=False, live=False)
        return self._manifest is not None

    async def take(
        self,
        manifest: Manifest,
        *,
        source: Who | None = None,
        due: Callable[[], bool] | None = None,
        keep: bool = True,
        live: bool = True,
    ) -> bool:
        """What the server says; whether that is something else than before.

        Args:
            source: to whom it says so, where that is not the same as before.
            due: whether it is to be taken, asked when those before it have been.
            keep: whether it is kept for the next time.
            live: whether it says so now: what it said earlier is shown, but not pinned.
        """
        async with self._turn():  # a connection that comes up tells of it, and so does whoever waited for that
            if due is not None and not due():
                return False
            if keep and self._manifests is not None and self._manifest != manifest:
                await asyncio.to_thread(self._manifests.save, self._identity, manifest)
            built = copy(self)  # beside the loop: thousands of tools take seconds
            built.source = self.source if source is None else source
            changed = await asyncio.to_thread(built.compare_and_build, manifest, live)
            self._live, self.source = live, built.source
            if changed:
                vars(self).update({name: vars(built)[name] for name in _BUILT})
            return changed

    @property
    def known(self) -> bool:
        """Whether it is known what the server offers."""
        return self._manifest is not None

    def says(self, manifest: Manifest) -> bool:
        """Whether a listing is what is known already."""
        return self._manifest is not None and self._manifest.tools == manifest.tools

    def words_are(self, manifest: Manifest) -> bool:
        """Whether its words beside the tools are those of another listing, too."""
        mine = self._manifest
        return mine is not None and (mine.instructions, mine.prompts) == (manifest.instructions, manifest.prompts)

    def _turn(self) -> asyncio.Lock:
        """One at a time; made anew for each event loop, because a program may have several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._taking is None or self._loop is not loop:
            self._taking, self._loop = asyncio.Lock(), loop
        return self._taking

    _loop: asyncio.AbstractEventLoop | None = None
    _live = False
    """Whether the server itself has said it."""
    _held: Mapping[str, Change] = {}
    """What changed in all that is held back, by names on the wire."""

    def compare_and_build(self, manifest: Manifest, live: bool) -> bool:
        """Hold it against what is pinned, and build what has to be built."""
        from surehand.providers.mcp.definition import allowed, names_of
        from surehand.providers.mcp.schema import allowance

        wires = {_wire(each): each for each in reversed(manifest.tools)}  # of two of a name the first counts
        names, allow, deny = names_of(wires.values()), self._options.allow, self._options.deny
        taken = [wire for wire in wires if allowed(wire, allow, deny, ours=names.get(wire))][::-1]
        words, seen = said(manifest.instructions, manifest.prompts), {*taken} - {*SAID}
        tools = [each for each in manifest.tools if _wire(each) in seen]
        held = self._lock.look(self._server, self._identity, [*words, *tools], live=live)
        if self._manifest == manifest and held == self._held:
            return False
        self._manifest, self._held = manifest, held
        self._instructions, self._prompts = (self._trusted(each) for each in words)
        self.tools, self.definitions, self.changed, self._unusable, self._checks = [], {}, {}, {}, {}
        place = place_of(self._identity)
        with allowance():
            for wire in taken:
                self._add(wires[wire], names.get(wire), place)
        self._log()
        return True

    def _log(self) -> None:
        for wire, why in list(self._unusable.items())[:MOST_MISSING]:
            log.warning("%s of %s is left out: %s", escape_line(wire, 100), self._server, why)
        if (more := len(self._unusable) - MOST_MISSING) > 0:
            log.warning("%d more tools of %s are left out.", more, self._server)

    _instructions: Mapping[str, Any] = {}
    _prompts: Mapping[str, Any] = {}

    def _trusted(self, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """The definition, or, while that is held back, the one that was accepted; at the least a name."""
        wire = _wire(definition)
        if (change := self._held.get(wire)) is None:
            return definition
        old = change.old if change.tool is not None else change.old["tools"].get(wire)
        theirs = self.source != EVERYONE  # what was accepted may have been told another user
        return {"name": wire, "inputSchema": {"type": "object"}} if theirs or not old else old

    def _add(self, definition: Mapping[str, Any], name: str | None, place: str) -> None:
        from surehand.providers.mcp.definition import Unusable, tool_of

        wire, trusted, effects = _wire(definition), self._trusted(definition), self._options.effects
        if (change := self._held.get(wire)) is not None:
            place += (
                f"\nheld back {change.sha256}"  # accepted in the middle of a call, it is not what was allowed before
            )
        try:
            made = tool_of(trusted, server=self._server, identity=place, name=name, effects=effects)
        except Unusable as error:
            self._unusable[wire] = str(error)
            return
        self.definitions[made.name] = trusted
        if made.repeatable and self._options.retries:
            made = made.evolve(limits=replace(made.limits, retries=self._options.retries))
        made = self._kept_for(made, wire)
        if change is not None:
            self.changed[made.name] = _why(change)
            made = made.evolve(face=replace(made.face, listed=False))
        made.compile()
        self.tools.append(made)

    def _kept_for(self, made: Tool[..., Any], wire: str) -> Tool[..., Any]:
        """With how long its results are kept, where that is said of it, and it only reads."""
        from surehand.providers.mcp.definition import said_of

        rules = {glob: Cache(float(ttl or 0)) for glob, ttl in (self._options.tools_cache or {}).items()}
        cache, reads = said_of((wire, made.name), rules), bool(made.effects) and made.effects <= {"read", "network"}
        return made if cache is None or not reads else made.evolve(limits=replace(made.limits, cache=cache))

    async def look_again(self, name: str) -> bool:
        """Whether a tool that was held back is so no longer, because somebody accepted it meanwhile."""
        if name not in self.changed or self._manifest is None:
            return False
        return await self.take(self._manifest, keep=False, live=self._live)

    def wire_name(self, name: str) -> str:
        """What the server calls a tool; raises for one that may not be called."""
        if (why := self.changed.get(name)) is not None:
            raise Held(f"{name} of {self._server} is held back, because {why} {self._remedy(name)}".rstrip())
        if name not in self.definitions:
            raise NotFound(f"{self._server} offers no {name} any more.")
        return _wire(self.definitions[name])

    def named(self, tool: Tool[..., Any]) -> str:
        """What the server calls a tool, also one that may not be called."""
        return _wire(self.definitions[tool.name])

    def _remedy(self, name: str) -> str:
        if not self._held[_wire(self.definitions[name])].sha256:
            return ""  # it cannot be pinned, and so not be accepted
        if self._options.lock is None:
            return "What it was is pinned while this program runs; with a lock file people can accept what it is now."
        if self._options.frozen:
            return "The lock is frozen: people accept what it is now where the lock file may be written."
        return "A person looks at it with `surehand lock diff` and accepts it with `surehand lock accept`."

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

    def check_of(self, name: str) -> Checker | None:
        """What looks at a tool's structured answers, where it says how these look."""
        try:
            return self._checks[name]
        except KeyError:
            from surehand.providers.mcp.content import checker_of

            self._checks[name] = checker_of(self.definitions.get(name, {}).get("outputSchema"))
            return self._checks[name]

    @property
    def missing(self) -> str:
        """What is held back or cannot be used, and why."""
        words = {INSTRUCTIONS: "Instructions of it", PROMPTS: "Prompts of it"}
        lines = [
            *(
                f"{text} are held back: they are not those that were accepted."
                for name, text in words.items()
                if name in self._held
            ),
            *(f"{name} is held back: {why}" for name, why in self.changed.items()),
            *(f"{escape_line(name, 100)} cannot be used: {why}" for name, why in self._unusable.items()),
        ]
        shown = [each if len(each) <= _LINE else f"{each[:_LINE]}..." for each in lines[:MOST_MISSING]]
        more = [f"{len(lines) - MOST_MISSING} more are missing."] if len(lines) > MOST_MISSING else []
        return "\n".join([*shown, *more])

    def instructions(self) -> str:
        """The server's own words, and its prompts; what is held back is told as it was accepted."""
        if self._manifest is None:
            return ""

        words = clean_text(instructions_in(self._instructions))
        prompts = _prompts(self._prompts, MOST_TOLD - len(words) - len(self.missing))
        return "\n\n".join(part for part in (words, prompts) if part)


_LINE = 300
"""Characters on why one tool is missing."""
_BUILT = ("_manifest", "_held", "_instructions", "_prompts", "tools", "definitions", "changed", "_unusable", "_checks")


def _wire(definition: Mapping[str, Any]) -> str:
    return str(definition.get("name"))


def _why(change: Change) -> str:
    how = "has changed since it was accepted" if change.old else "was never accepted"
    return f"its definition {how} ({change.summary})."


class Held(Denied):
    """A tool that is held back: nothing was sent."""

    executed = False


def _prompts(definition: Mapping[str, Any], room: int) -> str:
    """As many as there is room for, and how many more."""
    prompts = prompts_in(definition)
    lines = [_prompt(prompt) for prompt in prompts[:MOST_PROMPTS]]
    while lines and sum(map(len, lines)) + len(lines) + 100 > room:
        lines.pop()
    if len(lines) < len(prompts):
        lines.append(f"- and {len(prompts) - len(lines)} more")
    return "Prompts:\n" + "\n".join(lines) if lines else ""


def _prompt(prompt: Mapping[str, Any]) -> str:

    described = clean_line(prompt.get("description") or prompt.get("title"), 500)
    return f"- {clean_line(prompt.get('name'))}{f': {described}' if described else ''}"


def _manifests(options: Options) -> Manifests | None:
    if options.manifest is False:
        return None
    return Manifests(None if options.manifest is True else Path(options.manifest))
