"""Offered tools: tools that a session's client brings for that session alone (`scope.offer`)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import Principal
from surehand.core.errors import DefinitionError
from surehand.core.tool import Tool
from surehand.runtime.background_tasks import BackgroundTasks
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.errors import StoreError, UnstorableValue

if TYPE_CHECKING:
    from surehand.store.tables.offered_tools import OfferedToolRow

SessionKey: TypeAlias = tuple[str | None, str | None]
"""User and session."""
log = logging.getLogger("surehand")
OFFER_OVERLAP_SECONDS = 5.0
"""How far back the latest offers are read again: a transaction may commit after one that began later."""

MAX_OFFERING_SESSIONS = 10_000
"""Limit on sessions with tools of their own; the tools of the one that offered longest ago are dropped."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SessionTools:
    """The tools of one session."""

    catalogue: Catalogue


class OfferedTools:
    """The offered tools of a runtime, by user and session.

    With a configured store, client and external tools are stored, and those that other processes stored are known here
    too. They are built when their session first needs them.
    """

    def __init__(
        self, catalogue: Catalogue, store: RuntimeStore, running: RunningCalls, background_tasks: BackgroundTasks
    ) -> None:
        self._catalogue = catalogue
        self._store = store
        self._running = running
        self._background_tasks = background_tasks
        self._tables: dict[SessionKey, SessionTools] = {}
        self._definitions: dict[SessionKey, dict[str, str | None]] = {}
        """The known definitions by session and name; None for a tool that only this process can have."""
        self._unbuilt: dict[SessionKey, dict[str, str]] = {}
        """Stored definitions whose tools are not built yet."""
        self._unsaved: list[OfferedToolRow] = []
        self._latest_offer_at = 0.0
        self._sessions_by_name: Counter[str] = Counter()
        """How many sessions offer a tool under a name or alias, so that other names need no lookup."""

    def has_name(self, name: str) -> bool:
        """Whether any session offers a tool under this name."""
        return self._sessions_by_name[name] > 0

    def table_for(self, principal: Principal) -> SessionTools | None:
        """The tools that the session of a principal offers."""
        key = (principal.user, principal.session)
        if key in self._unbuilt:
            self._build(key)
        return self._tables.get(key)

    def find(self, name: str, principal: Principal) -> Listing | None:
        """Find a tool that the session of a principal offers."""
        table = self.table_for(principal) if self.has_name(name) else None
        return None if table is None else table.catalogue.find(name)

    def add(self, principal: Principal, tools: tuple[Tool[..., Any], ...]) -> None:
        """Add tools to a session, in place of its own tools of the same name. Raises if the runtime has the name."""
        for tool in tools:
            taken = next((name for name in (tool.name, *tool.aliases) if name in self._catalogue), None)
            if taken is not None:
                raise DefinitionError(
                    f"A session cannot offer {taken!r}: the runtime has a tool of that name.",
                    fix="give it another name.",
                    where=tool.where,
                )
            tool.require_runner()
            tool.compile()
        key = (principal.user, principal.session)
        self.table_for(principal)
        self._add_to_table(key, tools)
        for tool in tools:
            self._definitions.setdefault(key, {})[tool.name] = self._definition_to_store(key, tool)
        if self._unsaved and self._running.is_open:
            _ = self._background_tasks.spawn(self._save_in_background())

    def _add_to_table(self, key: SessionKey, tools: Sequence[Tool[..., Any]]) -> None:
        before = self._tables.pop(key, None)
        catalogue = self._catalogue.new_empty()
        catalogue.add(*(listing.tool for listing in before.catalogue) if before is not None else ())
        catalogue.add(*tools, on_conflict="replace")
        self._tables[key] = SessionTools(catalogue)
        self._count_names(before, -1)
        self._count_names(self._tables[key], 1)
        while len(self._tables) > MAX_OFFERING_SESSIONS:
            self._forget_session(next(iter(self._tables)))

    def _forget_session(self, key: SessionKey) -> None:
        """Forget the tools of a session; its next call of one reads the store again."""
        self._count_names(self._tables.pop(key, None), -1)
        self._definitions.pop(key, None)
        for name, definition in self._unbuilt.pop(key, {}).items():
            self._count_stored_name(name, definition, -1)

    def _definition_to_store(self, key: SessionKey, tool: Tool[..., Any]) -> str | None:
        """Queue a tool to be stored; returns its definition, or None if it cannot be stored."""
        if not self._store.is_durable:
            return None
        from surehand.core.stored_tools import serialize_tool  # only tools that sessions offer need it
        from surehand.store.tables.offered_tools import OfferedToolRow

        user, session = key
        definition = serialize_tool(tool)
        if definition is not None and session is not None:
            self._unsaved.append(OfferedToolRow(user, session, tool.name, definition, 0.0))
        return definition

    async def _save_in_background(self) -> None:
        try:
            await self.save()
        except StoreError as error:  # maintenance tries again
            log.warning("Offered tools could not be stored yet: %s", error)

    async def save(self) -> None:
        """Store the tools that were offered here, for other processes."""
        if not self._unsaved or self._store.current is None:
            return
        tools, self._unsaved = self._unsaved, []
        try:
            await self._store.current.offered_tools.save(tools)
        except UnstorableValue as error:
            log.warning("Offered tools cannot be stored, and exist in this process alone: %s", error)
        except (StoreError, asyncio.CancelledError):
            self._unsaved[:0] = tools
            raise

    async def load_session(self, principal: Principal) -> None:
        """Learn what other processes have stored for the session of a principal."""
        store = self._store.current
        if self._store.is_durable and store is not None and principal.session is not None:
            self._learn(await store.offered_tools.of_session(principal.user, principal.session))

    async def load_latest(self) -> None:
        """Learn what other processes have stored since the last time."""
        store = self._store.current
        assert store is not None
        since = self._latest_offer_at - OFFER_OVERLAP_SECONDS
        rows = await store.offered_tools.latest(since, limit=MAX_OFFERING_SESSIONS)
        self._learn(rows)
        self._latest_offer_at = max([self._latest_offer_at, *(row.offered_at for row in rows)])

    def _learn(self, rows: Iterable[OfferedToolRow]) -> None:
        for row in rows:
            key = (row.user, row.session)
            definitions = self._definitions.setdefault(key, {})
            if definitions.get(row.name, "") in (row.definition, None):
                continue  # known, or one of this process that cannot be stored
            unbuilt = self._unbuilt.setdefault(key, {})
            if row.name in unbuilt:
                self._count_stored_name(row.name, unbuilt[row.name], -1)
            definitions[row.name] = row.definition
            unbuilt[row.name] = row.definition
            self._count_stored_name(row.name, row.definition, 1)
        while len(self._unbuilt) > MAX_OFFERING_SESSIONS:
            self._forget_session(next(iter(self._unbuilt)))

    def _count_stored_name(self, name: str, definition: str, change: int) -> None:
        from surehand.core.stored_tools import aliases_of_definition  # only tools that other processes offer need it

        for each in {name, *aliases_of_definition(definition)}:
            self._change_count(each, change)

    def _build(self, key: SessionKey) -> None:
        """Build the tools of a session that other processes have stored."""
        from surehand.core.stored_tools import deserialize_tool

        tools: list[Tool[..., Any]] = []
        for name, definition in self._unbuilt.pop(key).items():
            self._count_stored_name(name, definition, -1)
            try:
                tool = deserialize_tool(name, definition)
                tool.compile()
            except DefinitionError as error:
                log.warning("The offered tool %s is left out: %s", name, error)
                continue
            if any(each in self._catalogue for each in (name, *tool.aliases)):
                log.warning("The offered tool %s is left out: this runtime has a tool of that name.", name)
                continue
            tools.append(tool)
        if tools:
            self._add_to_table(key, tools)

    def _count_names(self, table: SessionTools | None, change: int) -> None:
        for listing in table.catalogue if table is not None else ():
            for name in {listing.name, listing.wire_name, *listing.tool.aliases}:
                self._change_count(name, change)

    def _change_count(self, name: str, change: int) -> None:
        self._sessions_by_name[name] += change
        if not self._sessions_by_name[name]:
            del self._sessions_by_name[name]
