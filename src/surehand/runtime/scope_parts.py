"""Scope parts: what the scopes of one runtime work with. `compose` makes it; only scopes see it as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.runtime.active_spaces import ActiveSpaces
    from surehand.runtime.agents import AgentTable
    from surehand.runtime.call_loader import CallLoader
    from surehand.runtime.crash_report import CrashReport
    from surehand.runtime.invocation.invocation import CallEnvironment
    from surehand.runtime.last_results import LastResults
    from surehand.runtime.limits.budget import TurnBudgets
    from surehand.runtime.limits.queue_table import QueueTable
    from surehand.runtime.listeners import Listeners
    from surehand.runtime.named_scopes import NamedScopes
    from surehand.runtime.offered_tools import OfferedTools
    from surehand.runtime.outputs import OversizedOutputs
    from surehand.runtime.pipeline.installed_middleware import MiddlewareTable
    from surehand.runtime.pipeline.stacks import StackTables
    from surehand.runtime.policy import ActivePolicy
    from surehand.runtime.providers import ProviderTable
    from surehand.runtime.session_states import SessionStates
    from surehand.runtime.stats import StatsTable


@dataclass(frozen=True, slots=True)
class ToolSources:
    """Where the tools of a runtime come from, and what decides about them; the same for all its scopes."""

    catalogue: Catalogue
    offered_tools: OfferedTools
    provider_table: ProviderTable
    policy: ActivePolicy
    workspace: str
    crash_report: CrashReport


@dataclass(frozen=True, slots=True)
class ScopeParts:
    """What the scopes of one runtime work with. Only scopes see it; every other part is given what it uses."""

    environment: CallEnvironment
    tool_sources: ToolSources
    stack_tables: StackTables
    calls: CallLoader
    listeners: Listeners
    stats: StatsTable
    queues: QueueTable
    outputs: OversizedOutputs
    last_results: LastResults
    turn_budgets: TurnBudgets
    session_states: SessionStates
    active_spaces: ActiveSpaces
    middleware: MiddlewareTable
    auto_complete: bool
    named_scopes: NamedScopes[Any]
    agents: AgentTable
