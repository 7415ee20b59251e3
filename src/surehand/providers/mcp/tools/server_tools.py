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
from surehand.providers.mcp.addresses.address import ANONYMOUS, ConnectionOwner
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache, identity_on_this_machine
from surehand.providers.trust.change import DefinitionChange
from surehand.providers.trust.instructions import (
    INSTRUCTIONS_NAME,
    PROMPTS_NAME,
    RESERVED_DEFINITION_NAMES,
    instruction_definitions,
    instructions_from,
    prompts_from,
)
from surehand.providers.trust.lock import DefinitionLock

if TYPE_CHECKING:
    from surehand.providers.mcp.tools.result import OutputValidator

log = logging.getLogger("surehand")

MAX_PROMPTS_SHOWN, MAX_MISSING_SHOWN, MAX_INSTRUCTIONS_LENGTH = 20, 10, 8_000
"""Prompts, and tools that are not there, that models are told of; and characters of all that a server tells them."""


class ServerTools:
    """From definitions as they come over the wire to tools."""

    def __init__(self, server_name: str, identity: str, options: ServerOptions) -> None:
        self._server_name, self._identity, self._options = server_name, identity, options
        self._lock = DefinitionLock(options.lock, frozen=options.frozen)
        self._manifest_cache = _open_manifest_cache(options)
        self._manifest: Manifest | None = None
        self.listed_for = ANONYMOUS
        """To whom the server has said it."""
        self.tools: list[Tool[..., Any]] = []
        self.definitions: dict[str, Mapping[str, Any]] = {}
        """As on the wire, by our names."""
        self.held_back_reasons: dict[str, str] = {}
        """Why tools are held back, by our names."""
        self.denied_names: frozenset[str] = frozenset()
        """Tools that the server lists and that `tools_allowed` or `tools_denied` leave out, by our names."""
        self._unusable_reasons: dict[str, str] = {}
        self._output_validators: dict[str, OutputValidator | None] = {}
        self._update_lock: asyncio.Lock | None = None

    async def load_cached(self) -> bool:
        """Whether it is known from an earlier time what the server offers."""
        if self._manifest is None and self._manifest_cache is not None:
            found = await asyncio.to_thread(self._manifest_cache.load, self._identity)
            if found is not None:
                await self.update(found, save=False, live=False)
        return self._manifest is not None

    async def update(
        self,
        manifest: Manifest,
        *,
        listed_for: ConnectionOwner | None = None,
        is_due: Callable[[], bool] | None = None,
        save: bool = True,
        live: bool = True,
    ) -> bool:
        """What the server says; whether that is something else than before.

        Args:
            source: to whom it says so, where that is not the same as before.
            due: whether it is to be taken, asked when those before it have been.
            keep: whether it is kept for the next time.
            live: whether it says so now: what it said earlier is shown, but not pinned.
        """
        async with (
            self._update_lock_of_loop()
        ):  # a connection that comes up tells of it, and so does whoever waited for that
            if is_due is not None and not is_due():
                return False
            if save and self._manifest_cache is not None and self._manifest != manifest:
                await asyncio.to_thread(self._manifest_cache.save, self._identity, manifest)
            built = copy(self)  # beside the loop: thousands of tools take seconds
            built.listed_for = self.listed_for if listed_for is None else listed_for
            changed = await asyncio.to_thread(built.compare_and_build, manifest, live)
            self._is_live, self.listed_for = live, built.listed_for
            if changed:
                vars(self).update({name: vars(built)[name] for name in _BUILT_ATTRIBUTES})
            return changed

    @property
    def is_known(self) -> bool:
        """Whether it is known what the server offers."""
        return self._manifest is not None

    def has_same_tools(self, manifest: Manifest) -> bool:
        """Whether a listing is what is known already."""
        return self._manifest is not None and self._manifest.tools == manifest.tools

    def has_same_prose(self, manifest: Manifest) -> bool:
        """Whether its words beside the tools are those of another listing, too."""
        mine = self._manifest
        return mine is not None and (mine.instructions, mine.prompts) == (manifest.instructions, manifest.prompts)

    def _update_lock_of_loop(self) -> asyncio.Lock:
        """One at a time; made anew for each event loop, because a program may have several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._update_lock is None or self._loop is not loop:
            self._update_lock, self._loop = asyncio.Lock(), loop
        return self._update_lock

    _loop: asyncio.AbstractEventLoop | None = None
    _is_live = False
    """Whether the server itself has said it."""
    _held_back_changes: Mapping[str, DefinitionChange] = {}
    """What changed in all that is held back, by names on the wire."""

    def compare_and_build(self, manifest: Manifest, live: bool) -> bool:
        """Hold it against what is pinned, and build what has to be built."""
        from surehand.providers.mcp.tools.definition import assign_local_names, is_tool_allowed
        from surehand.providers.mcp.tools.schema import pattern_budget

        wires = {_wire_name(each): each for each in reversed(manifest.tools)}  # of two of a name the first counts
        names, allow, deny = assign_local_names(wires.values()), self._options.allow, self._options.deny
        taken = [wire for wire in wires if is_tool_allowed(wire, allow, deny, local_name=names.get(wire))][::-1]
        self.denied_names = frozenset(names.get(wire) or wire for wire in {*wires}.difference(taken))
        words, seen = (
            instruction_definitions(manifest.instructions, manifest.prompts),
            {*taken} - {*RESERVED_DEFINITION_NAMES},
        )
        tools = [each for each in manifest.tools if _wire_name(each) in seen]
        held = self._lock.check(self._server_name, self._identity, [*words, *tools], is_live=live)
        if self._manifest == manifest and held == self._held_back_changes:
            return False
        self._manifest, self._held_back_changes = manifest, held
        self._trusted_instructions, self._trusted_prompts = (self._trusted_definition(each) for each in words)
        self.tools, self.definitions, self.held_back_reasons, self._unusable_reasons, self._output_validators = (
            [],
            {},
            {},
            {},
            {},
        )
        place = identity_on_this_machine(self._identity)
        with pattern_budget():
            for wire in taken:
                self._add_tool(wires[wire], names.get(wire), place)
        self._log_unusable_tools()
        return True

    def _log_unusable_tools(self) -> None:
        for wire, why in list(self._unusable_reasons.items())[:MAX_MISSING_SHOWN]:
            log.warning("%s of %s is left out: %s", escape_line(wire, 100), self._server_name, why)
        if (more := len(self._unusable_reasons) - MAX_MISSING_SHOWN) > 0:
            log.warning("%d more tools of %s are left out.", more, self._server_name)

    _trusted_instructions: Mapping[str, Any] = {}
    _trusted_prompts: Mapping[str, Any] = {}

    def _trusted_definition(self, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """The definition, or, while that is held back, the one that was accepted; at the least a name."""
        wire = _wire_name(definition)
        if (change := self._held_back_changes.get(wire)) is None:
            return definition
        old = change.old if change.tool is not None else change.old["tools"].get(wire)
        theirs = self.listed_for != ANONYMOUS  # what was accepted may have been told another user
        return {"name": wire, "inputSchema": {"type": "object"}} if theirs or not old else old

    def _add_tool(self, definition: Mapping[str, Any], local_name: str | None, machine_identity: str) -> None:
        from surehand.providers.mcp.tools.definition import UnusableDefinition, build_tool

        wire, trusted, effects = _wire_name(definition), self._trusted_definition(definition), self._options.effects
        if (change := self._held_back_changes.get(wire)) is not None:
            machine_identity += (
                f"\nheld back {change.sha256}"  # accepted in the middle of a call, it is not what was allowed before
            )
        try:
            made = build_tool(
                trusted, server=self._server_name, identity=machine_identity, name=local_name, effects=effects
            )
        except UnusableDefinition as error:
            self._unusable_reasons[wire] = str(error)
            return
        self.definitions[made.name] = trusted
        if made.repeatable and self._options.retries:
            made = made.evolve(limits=replace(made.limits, retries=self._options.retries))
        made = self._with_cache_rule(made, wire)
        if change is not None:
            self.held_back_reasons[made.name] = _held_back_reason(change)
            made = made.evolve(presentation=replace(made.presentation, listed=False))
        made.compile()
        self.tools.append(made)

    def _with_cache_rule(self, tool: Tool[..., Any], wire_name: str) -> Tool[..., Any]:
        """With how long its results are kept, where that is said of it, and it only reads."""
        from surehand.providers.mcp.tools.definition import find_by_glob

        rules = {glob: Cache(float(ttl or 0)) for glob, ttl in (self._options.tools_cache or {}).items()}
        cache, reads = (
            find_by_glob((wire_name, tool.name), rules),
            bool(tool.effects) and tool.effects <= {"read", "network"},
        )
        return tool if cache is None or not reads else tool.evolve(limits=replace(tool.limits, cache=cache))

    async def recheck_held_back(self, name: str) -> bool:
        """Whether a tool that was held back is so no longer, because somebody accepted it meanwhile."""
        if name not in self.held_back_reasons or self._manifest is None:
            return False
        return await self.update(self._manifest, save=False, live=self._is_live)

    def require_wire_name(self, name: str) -> str:
        """What the server calls a tool; raises for one that may not be called."""
        if (why := self.held_back_reasons.get(name)) is not None:
            raise HeldBack(f"{name} of {self._server_name} is held back, because {why} {self._remedy(name)}".rstrip())
        if name not in self.definitions:
            raise NotFound(f"{self._server_name} offers no {name} any more.")
        return _wire_name(self.definitions[name])

    def wire_name_of(self, tool: Tool[..., Any]) -> str:
        """What the server calls a tool, also one that may not be called."""
        return _wire_name(self.definitions[tool.name])

    def _remedy(self, name: str) -> str:
        if not self._held_back_changes[_wire_name(self.definitions[name])].sha256:
            return ""  # it cannot be pinned, and so not be accepted
        if self._options.lock is None:
            return "What it was is pinned while this program runs; with a lock file people can accept what it is now."
        if self._options.frozen:
            return "The lock is frozen: people accept what it is now where the lock file may be written."
        return "A person looks at it with `surehand lock diff` and accepts it with `surehand lock accept`."

    def is_repeatable(self, wire_name: str) -> bool:
        """Whether a tool, by its name on the wire, may run twice without harm."""
        names = {name for name, definition in self.definitions.items() if definition.get("name") == wire_name}
        return any(tool.repeatable for tool in self.tools if tool.name in names)

    def interrupted_outcome(self, wire_name: str) -> Failed:
        """What becomes of a call whose question nobody can answer any more."""
        why = f"{self._server_name} no longer waits for this answer: it, or this program, was started anew."
        if self.is_repeatable(wire_name):
            return Failed("interrupted", f"{why} Call the tool again.", executed=True)
        return Failed("unknown_effect", f"{why} Whether anything was done is not known.", executed=True)

    def output_validator(self, name: str) -> OutputValidator | None:
        """What looks at a tool's structured answers, where it says how these look."""
        try:
            return self._output_validators[name]
        except KeyError:
            from surehand.providers.mcp.tools.result import build_output_validator

            self._output_validators[name] = build_output_validator(self.definitions.get(name, {}).get("outputSchema"))
            return self._output_validators[name]

    @property
    def missing_summary(self) -> str:
        """What is held back or cannot be used, and why."""
        words = {INSTRUCTIONS_NAME: "Instructions of it", PROMPTS_NAME: "Prompts of it"}
        lines = [
            *(
                f"{text} are held back: they are not those that were accepted."
                for name, text in words.items()
                if name in self._held_back_changes
            ),
            *(f"{name} is held back: {why}" for name, why in self.held_back_reasons.items()),
            *(f"{escape_line(name, 100)} cannot be used: {why}" for name, why in self._unusable_reasons.items()),
        ]
        shown = [
            each if len(each) <= _MAX_MISSING_LINE_LENGTH else f"{each[:_MAX_MISSING_LINE_LENGTH]}..."
            for each in lines[:MAX_MISSING_SHOWN]
        ]
        more = [f"{len(lines) - MAX_MISSING_SHOWN} more are missing."] if len(lines) > MAX_MISSING_SHOWN else []
        return "\n".join([*shown, *more])

    def instructions(self) -> str:
        """The server's own words, and its prompts; what is held back is told as it was accepted."""
        if self._manifest is None:
            return ""

        words = clean_text(instructions_from(self._trusted_instructions))
        prompts = _render_prompts(
            self._trusted_prompts, MAX_INSTRUCTIONS_LENGTH - len(words) - len(self.missing_summary)
        )
        return "\n\n".join(part for part in (words, prompts) if part)


_MAX_MISSING_LINE_LENGTH = 300
"""Characters on why one tool is missing."""
_BUILT_ATTRIBUTES = (
    "_manifest",
    "_held_back_changes",
    "_trusted_instructions",
    "_trusted_prompts",
    "tools",
    "definitions",
    "held_back_reasons",
    "_unusable_reasons",
    "_output_validators",
)


def _wire_name(definition: Mapping[str, Any]) -> str:
    return str(definition.get("name"))


def _held_back_reason(change: DefinitionChange) -> str:
    how = "has changed since it was accepted" if change.old else "was never accepted"
    return f"its definition {how} ({change.summary})."


class HeldBack(Denied):
    """A tool that is held back: nothing was sent."""

    executed = False


def _render_prompts(definition: Mapping[str, Any], max_length: int) -> str:
    """As many as there is room for, and how many more."""
    prompts = prompts_from(definition)
    lines = [_render_prompt(prompt) for prompt in prompts[:MAX_PROMPTS_SHOWN]]
    while lines and sum(map(len, lines)) + len(lines) + 100 > max_length:
        lines.pop()
    if len(lines) < len(prompts):
        lines.append(f"- and {len(prompts) - len(lines)} more")
    return "Prompts:\n" + "\n".join(lines) if lines else ""


def _render_prompt(prompt: Mapping[str, Any]) -> str:

    described = clean_line(prompt.get("description") or prompt.get("title"), 500)
    return f"- {clean_line(prompt.get('name'))}{f': {described}' if described else ''}"


def _open_manifest_cache(options: ServerOptions) -> ManifestCache | None:
    if options.manifest is False:
        return None
    return ManifestCache(None if options.manifest is True else Path(options.manifest))
