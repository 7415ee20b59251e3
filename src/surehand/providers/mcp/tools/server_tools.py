"""The tools of a server that are allowed, usable and trusted, built from its manifest.

The provider lists them and asks for wire names here. Definitions are compared with the pins of the lock file; a changed
definition is held back until a person accepts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surehand.core.errors import Denied, NotFound
from surehand.core.facets import Cache
from surehand.core.names import nearest_names
from surehand.core.outcome import Failed
from surehand.core.sanitize import clean_line, clean_text, escape_line
from surehand.core.tool import Tool
from surehand.providers.mcp.connection_owner import ANONYMOUS, ConnectionOwner
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache, identity_on_this_machine
from surehand.providers.tool_names import earlier_local_name
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

MAX_PROMPTS_SHOWN = 20
MAX_MISSING_SHOWN = 10
MAX_INSTRUCTIONS_LENGTH = 8_000
"""Limits of what models read about one server: prompts, missing tools, and characters of all texts."""


class ServerTools:
    """Builds tools from the definitions of a manifest, and knows which of them are held back."""

    def __init__(self, server_name: str, identity: str, options: ServerOptions) -> None:
        self._server_name = server_name
        self._identity = identity
        self._options = options
        self._lock = DefinitionLock(options.lock, frozen=options.frozen)
        self._manifest_cache = _open_manifest_cache(options)
        self._manifest: Manifest | None = None
        self.listed_for = ANONYMOUS
        """The owner of the connection that listed the current tools."""
        self.tools: list[Tool[..., Any]] = []
        self.definitions: dict[str, Mapping[str, Any]] = {}
        """Definitions as on the wire, by local name."""
        self.held_back_reasons: dict[str, str] = {}
        """Why tools are held back, by local name."""
        self.denied_names: frozenset[str] = frozenset()
        """Tools that the server lists and that `tools_allowed` or `tools_denied` leave out, by local name."""
        self._unusable_reasons: dict[str, str] = {}
        self.cache_problems: dict[str, str] = {}
        """Why `cache` or `tools_cache` has no effect on a tool, by wire name or glob."""
        self._effects: dict[str, frozenset[str]] = {}
        """The effects of tools, by local name."""
        self._output_validators: dict[str, OutputValidator | None] = {}
        self._reported_allow_names: set[str] = set()
        """Names of `tools_allowed` without a tool that were logged; shared by the copies that updates build."""
        self._update_lock: asyncio.Lock | None = None

    async def load_cached(self) -> bool:
        """Build the tools from the manifest cache if none are known yet. Returns whether tools are known."""
        if self._manifest is None and self._manifest_cache is not None:
            manifest = await asyncio.to_thread(self._manifest_cache.load, self._identity)
            if manifest is not None:
                await self.update(manifest, save=False, live=False)
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
        """Build the tools of a manifest. Returns whether they changed.

        Args:
            listed_for: the owner that listed it; None if that is unchanged.
            is_due: whether to use this manifest, asked after the updates before it have finished.
            save: whether to store it in the manifest cache.
            live: whether the server listed it now. A cached manifest is shown, but not pinned.
        """
        # A connection that comes up delivers its manifest, and a task that waited for it may deliver the same one.
        async with self._update_lock_of_loop():
            if is_due is not None and not is_due():
                return False
            if save and self._manifest_cache is not None and self._manifest != manifest:
                await asyncio.to_thread(self._manifest_cache.save, self._identity, manifest)
            # Thousands of tools take seconds: they are built on a copy in a thread, and taken over at once.
            built = copy(self)
            built.listed_for = self.listed_for if listed_for is None else listed_for
            has_changed = await asyncio.to_thread(built.compare_and_build, manifest, live)
            self._is_live = live
            self.listed_for = built.listed_for
            if has_changed:
                vars(self).update({name: vars(built)[name] for name in _BUILT_ATTRIBUTES})
            return has_changed

    @property
    def is_known(self) -> bool:
        """Whether a manifest is known."""
        return self._manifest is not None

    def has_same_tools(self, manifest: Manifest) -> bool:
        """Whether a manifest has the tools that are known already."""
        return self._manifest is not None and self._manifest.tools == manifest.tools

    def has_same_prose(self, manifest: Manifest) -> bool:
        """Whether a manifest has the instructions and prompts that are known already."""
        known = self._manifest
        return known is not None and (known.instructions, known.prompts) == (manifest.instructions, manifest.prompts)

    def _update_lock_of_loop(self) -> asyncio.Lock:
        """The lock of updates. An asyncio lock belongs to one event loop, and a program may run several in turn."""
        loop = asyncio.get_running_loop()
        if self._update_lock is None or self._loop is not loop:
            self._update_lock = asyncio.Lock()
            self._loop = loop
        return self._update_lock

    _loop: asyncio.AbstractEventLoop | None = None
    _is_live = False
    """Whether the manifest is live, and not from the cache."""
    _held_back_changes: Mapping[str, DefinitionChange] = {}
    """The changes of all definitions that are held back, by wire name."""

    def compare_and_build(self, manifest: Manifest, live: bool) -> bool:
        """Compare a manifest with the pins, and build its tools. Returns whether anything changed. Runs in a thread."""
        # These load the definition of tools and JSON Schema, which a program that only names servers does not need.
        from surehand.providers.mcp.tools.definition import assign_local_names, is_tool_allowed
        from surehand.providers.mcp.tools.schema import pattern_budget

        # Of two definitions with one name the first counts: it overwrites the other here.
        definitions = {_wire_name(definition): definition for definition in reversed(manifest.tools)}
        local_names = assign_local_names(definitions.values())
        allowed = [
            wire_name
            for wire_name in definitions
            if is_tool_allowed(
                wire_name, self._options.allow, self._options.deny, local_name=local_names.get(wire_name)
            )
        ][::-1]
        denied = {*definitions}.difference(allowed)
        self.denied_names = frozenset(local_names.get(wire_name) or wire_name for wire_name in denied)
        texts = instruction_definitions(manifest.instructions, manifest.prompts)
        pinned_names = {*allowed} - {*RESERVED_DEFINITION_NAMES}
        tools = [definition for definition in manifest.tools if _wire_name(definition) in pinned_names]
        changes = self._lock.check(self._server_name, self._identity, [*texts, *tools], is_live=live)
        if self._manifest == manifest and changes == self._held_back_changes:
            return False
        self._manifest = manifest
        self._held_back_changes = changes
        self._trusted_instructions, self._trusted_prompts = (self._trusted_definition(text) for text in texts)
        self.tools = []
        self.definitions = {}
        self.held_back_reasons = {}
        self._unusable_reasons = {}
        self.cache_problems = {}
        self._effects = {}
        self._output_validators = {}
        machine_identity = identity_on_this_machine(self._identity)
        with pattern_budget():
            for wire_name in allowed:
                self._add_tool(definitions[wire_name], local_names.get(wire_name), machine_identity)
        self._record_unused_cache_rules(allowed, local_names)
        self._log_unusable_tools()
        self._log_cache_problems()
        self._log_unknown_allowed_names(definitions, local_names)
        return True

    def _log_unknown_allowed_names(self, wire_names: Iterable[str], local_names: Mapping[str, str]) -> None:
        """Warn once about each name of `tools_allowed` that no tool of the server has; a glob may match none."""
        from surehand.providers.mcp.tools.definition import find_unmatched_names  # see compare_and_build

        unknown = find_unmatched_names(self._options.allow, wire_names, local_names)
        for name in unknown:
            if name in self._reported_allow_names:
                continue
            self._reported_allow_names.add(name)
            similar = nearest_names(name, wire_names, 1)
            hint = f" Did you mean {escape_line(similar[0], 100)}?" if similar else ""
            log.warning("%s has no tool %s, which `tools_allowed` names.%s", self._server_name, name, hint)

    def _log_cache_problems(self) -> None:
        if self.cache_problems:
            log.warning("The cache of %s has no effect on some tools. %s", self._server_name, self.cache_summary)

    @property
    def cache_summary(self) -> str:
        """For which tools `cache` and `tools_cache` have no effect, and why, for people; empty if there are none."""
        names_by_reason: dict[str, list[str]] = {}
        for name, reason in self.cache_problems.items():
            names_by_reason.setdefault(reason, []).append(escape_line(name, 100))
        return " ".join(
            f"{', '.join(names[:MAX_MISSING_SHOWN])}{_count_more(len(names) - MAX_MISSING_SHOWN)}: {reason}."
            for reason, names in names_by_reason.items()
        )

    def _log_unusable_tools(self) -> None:
        for wire_name, reason in list(self._unusable_reasons.items())[:MAX_MISSING_SHOWN]:
            log.warning("The tool %s of %s is left out: %s", escape_line(wire_name, 100), self._server_name, reason)
        more = len(self._unusable_reasons) - MAX_MISSING_SHOWN
        if more > 0:
            log.warning("%d more tools of %s are left out.", more, self._server_name)

    _trusted_instructions: Mapping[str, Any] = {}
    _trusted_prompts: Mapping[str, Any] = {}

    def _trusted_definition(self, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """The definition; while it is held back, the accepted one, or a stub with its name if there is none."""
        wire_name = _wire_name(definition)
        change = self._held_back_changes.get(wire_name)
        if change is None:
            return definition
        accepted = change.old if change.tool is not None else change.old["tools"].get(wire_name)
        # The accepted definition may have been listed for another user, and is not shown to this one.
        if self.listed_for != ANONYMOUS or not accepted:
            return {"name": wire_name, "inputSchema": {"type": "object"}}
        return accepted

    def _add_tool(self, definition: Mapping[str, Any], local_name: str | None, machine_identity: str) -> None:
        from surehand.providers.mcp.tools.definition import UnusableDefinition, build_tool  # see compare_and_build

        wire_name = _wire_name(definition)
        trusted = self._trusted_definition(definition)
        change = self._held_back_changes.get(wire_name)
        if change is not None:
            # An approval of the accepted definition must not apply to this one if it is accepted during the call.
            machine_identity += f"\nheld back {change.sha256}"
        try:
            tool = build_tool(
                trusted,
                server=self._server_name,
                identity=machine_identity,
                name=local_name,
                effects=self._options.effects,
            )
        except UnusableDefinition as error:
            self._unusable_reasons[wire_name] = str(error)
            return
        self.definitions[tool.name] = trusted
        self._effects[tool.name] = tool.effects
        if tool.repeatable and self._options.retries:
            tool = tool.evolve(limits=replace(tool.limits, retries=self._options.retries))
        tool = self._with_cache_rule(tool, wire_name)
        if change is not None:
            self.held_back_reasons[tool.name] = _held_back_reason(change)
            tool = tool.evolve(presentation=replace(tool.presentation, listed=False))
        tool.compile()
        self.tools.append(tool)

    def _with_cache_rule(self, tool: Tool[..., Any], wire_name: str) -> Tool[..., Any]:
        """Apply the rule of `tools_cache` to a tool that it names, or to a read-only one that its glob matches."""
        from surehand.providers.mcp.tools.definition import find_by_glob, is_read_only  # see compare_and_build

        names = (wire_name, tool.name, earlier_local_name(wire_name))
        globs = {glob: glob for glob in self._options.tools_cache or {}}
        glob = find_by_glob(names, globs)
        declared = find_by_glob(names, self._options.effects)
        ttl = self._options.cache if glob is None else (self._options.tools_cache or {})[glob]
        can_cache = is_read_only(tool.effects) or (glob in names and declared is None)
        if ttl is not None and not can_cache:
            self.cache_problems[wire_name] = _uncacheable_reason(declared, is_glob=glob is not None)
        if glob is None or not can_cache:
            return tool
        return tool.evolve(limits=replace(tool.limits, cache=Cache(float(ttl or 0))))

    def _record_unused_cache_rules(self, allowed: Iterable[str], local_names: Mapping[str, str]) -> None:
        """Note the entries of `tools_cache` that match no tool."""
        names = [name for wire_name in allowed for name in (wire_name, local_names.get(wire_name, wire_name))]
        for glob in self._options.tools_cache or {}:
            if not any(fnmatchcase(name, glob) for name in names):
                self.cache_problems[glob] = "the server offers no such tool"

    async def recheck_held_back(self, name: str) -> bool:
        """Compare with the lock file again: a person may have accepted the tool. Returns whether anything changed."""
        if name not in self.held_back_reasons or self._manifest is None:
            return False
        return await self.update(self._manifest, save=False, live=self._is_live)

    async def read_held_back(self) -> list[DefinitionChange]:
        """The changes of this server that wait to be accepted."""
        changes = await asyncio.to_thread(self._lock.changes)
        return [each for each in changes if each.namespace == self._server_name]

    async def accept(self, tool: str | None, sha256: str) -> bool:
        """Accept a reviewed definition, by its wire name; returns whether the tools of the server changed."""
        names = [] if tool is None else [tool]
        await asyncio.to_thread(self._lock.accept, self._server_name, *names, reviewed_hashes=[sha256])
        if self._manifest is None:
            return False
        return await self.update(self._manifest, save=False, live=self._is_live)

    def require_wire_name(self, name: str) -> str:
        """The wire name of a tool. Raises if the tool is held back or gone."""
        reason = self.held_back_reasons.get(name)
        if reason is not None:
            message = f"{name} of {self._server_name} is held back, because {reason} {self._remedy(name)}"
            raise HeldBack(message.rstrip())
        if name not in self.definitions:
            raise NotFound(f"{self._server_name} offers no {name} any more.")
        return _wire_name(self.definitions[name])

    def effects_of(self, name: str) -> frozenset[str] | None:
        """The effects of a tool; None if it is gone."""
        return self._effects.get(name)

    def require_allowed(self, name: str, effects: frozenset[str] | None) -> str:
        """The wire name of a tool whose server is up. Raises also if the tool now may do more than `effects` says.

        A cached manifest may say that a tool only reads, and the server, once it is up, that it does not.
        """
        wire_name = self.require_wire_name(name)
        current = self._effects.get(name)
        if effects is None or current is None or current is effects:  # the same object unless the tools were rebuilt
            return wire_name
        if added := current - {"read"} - effects:
            raise HeldBack(
                f"{name} of {self._server_name} may now do more than when it was listed ({', '.join(sorted(added))}), "
                "so this call was not sent. Call it again.",
                code="conflict",  # not `unavailable`, which is retried: the policy has to look at the next call
            )
        return wire_name

    def wire_name_of(self, tool: Tool[..., Any]) -> str:
        """The wire name of a tool, even if it is held back."""
        return _wire_name(self.definitions[tool.name])

    def _remedy(self, name: str) -> str:
        if not self._held_back_changes[_wire_name(self.definitions[name])].sha256:
            return ""  # it cannot be pinned, and therefore not be accepted
        if self._options.lock is None:
            return "It changed while this program runs. Start the program again to take what it is now."
        if self._options.frozen:
            return "The lock is frozen: people accept what it is now where the lock file may be written."
        return "A person looks at it with `surehand lock diff` and accepts it with `surehand lock accept`."

    def is_repeatable(self, wire_name: str) -> bool:
        """Whether a tool, given by its wire name, is repeatable."""
        names = {name for name, definition in self.definitions.items() if definition.get("name") == wire_name}
        return any(tool.repeatable for tool in self.tools if tool.name in names)

    def interrupted_outcome(self, wire_name: str) -> Failed:
        """The outcome of a call whose question can no longer be answered."""
        reason = f"{self._server_name} no longer waits for this answer: it, or this program, was started anew."
        if self.is_repeatable(wire_name):
            return Failed("interrupted", f"{reason} Call the tool again.", executed=True)
        return Failed("unknown_effect", f"{reason} Whether anything was done is not known.", executed=True)

    def output_validator(self, name: str) -> OutputValidator | None:
        """The validator of a tool's output schema, compiled on first use; None if it declares none."""
        try:
            return self._output_validators[name]
        except KeyError:
            from surehand.providers.mcp.tools.result import build_output_validator  # see compare_and_build

            self._output_validators[name] = build_output_validator(self.definitions.get(name, {}).get("outputSchema"))
            return self._output_validators[name]

    @property
    def missing_summary(self) -> str:
        """Which texts and tools are held back or unusable, and why, for models."""
        texts = {INSTRUCTIONS_NAME: "Instructions of it", PROMPTS_NAME: "Prompts of it"}
        lines: list[str] = []
        for name, text in texts.items():
            if name in self._held_back_changes:
                lines.append(f"{text} are held back: they are not those that were accepted.")
        for name, reason in self.held_back_reasons.items():
            lines.append(f"{name} is held back: {reason}")
        for name, reason in self._unusable_reasons.items():
            lines.append(f"{escape_line(name, 100)} cannot be used: {reason}")
        shown = [_shorten_line(line) for line in lines[:MAX_MISSING_SHOWN]]
        if len(lines) > MAX_MISSING_SHOWN:
            shown.append(f"{len(lines) - MAX_MISSING_SHOWN} more are missing.")
        return "\n".join(shown)

    def instructions(self) -> str:
        """The server's instructions and prompts, in their accepted form if the current one is held back."""
        if self._manifest is None:
            return ""
        instructions = clean_text(instructions_from(self._trusted_instructions))
        room = MAX_INSTRUCTIONS_LENGTH - len(instructions) - len(self.missing_summary)
        prompts = _render_prompts(self._trusted_prompts, room)
        return "\n\n".join(text for text in (instructions, prompts) if text)


_MAX_MISSING_LINE_LENGTH = 300
"""Characters of the line about one missing tool."""
_BUILT_ATTRIBUTES = (
    "_manifest",
    "_held_back_changes",
    "_trusted_instructions",
    "_trusted_prompts",
    "tools",
    "definitions",
    "held_back_reasons",
    "denied_names",
    "_unusable_reasons",
    "cache_problems",
    "_effects",
    "_output_validators",
)
"""Attributes that `compare_and_build` sets on a copy, and `update` takes over."""


def _wire_name(definition: Mapping[str, Any]) -> str:
    return str(definition.get("name"))


def _held_back_reason(change: DefinitionChange) -> str:
    event = "has changed since it was accepted" if change.old else "was never accepted"
    return f"its definition {event} ({change.summary})."


def _uncacheable_reason(declared: Iterable[str] | None, *, is_glob: bool) -> str:
    if declared is not None:
        return f"its declared effects are {', '.join(sorted(declared))}, and only read-only tools are cached"
    remedy = "name it in `tools_cache` without a wildcard" if is_glob else "name it in `tools_cache`"
    return f"the server does not mark it read-only; declare `read` for it in `effects`, or {remedy}"


def _count_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _shorten_line(line: str) -> str:
    return line if len(line) <= _MAX_MISSING_LINE_LENGTH else f"{line[:_MAX_MISSING_LINE_LENGTH]}..."


class HeldBack(Denied):
    """The tool is held back, or is not what the policy looked at, and the call was not sent."""

    executed = False


def _render_prompts(definition: Mapping[str, Any], max_length: int) -> str:
    """As many prompts as fit, and the number of the others."""
    prompts = prompts_from(definition)
    lines = [_render_prompt(prompt) for prompt in prompts[:MAX_PROMPTS_SHOWN]]
    while lines and sum(map(len, lines)) + len(lines) + 100 > max_length:
        lines.pop()
    if len(lines) < len(prompts):
        lines.append(f"- and {len(prompts) - len(lines)} more")
    return "Prompts:\n" + "\n".join(lines) if lines else ""


def _render_prompt(prompt: Mapping[str, Any]) -> str:
    name = clean_line(prompt.get("name"))
    description = clean_line(prompt.get("description") or prompt.get("title"), 500)
    return f"- {name}: {description}" if description else f"- {name}"


def _open_manifest_cache(options: ServerOptions) -> ManifestCache | None:
    if options.manifest is False:
        return None
    return ManifestCache(None if options.manifest is True else Path(options.manifest))
