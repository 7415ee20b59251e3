"""An OpenAPI document as a provider: lists a tool for every operation, and sends the requests of their calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias, cast

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.errors import DefinitionError, NotFound, NotStarted
from surehand.core.facets import CallLimits, Presentation, Safety, ToolKind
from surehand.core.outcome import Done
from surehand.core.protocols import ChangeNotifier
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.http.request import HttpRequest
from surehand.http.settings import HttpOptions
from surehand.http.target import HttpTarget
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.files import read_files
from surehand.providers.openapi.lazy_tool import OperationDescription, OperationParameters
from surehand.providers.openapi.looked_up import LookedUpOperations
from surehand.providers.openapi.names import assign_names
from surehand.providers.openapi.operation_check import OperationChecker
from surehand.providers.openapi.operations import READING_METHODS, Operation, collect_operations
from surehand.providers.openapi.options import OpenApiOptions
from surehand.providers.openapi.pinned_operations import PinnedOperations
from surehand.providers.openapi.plan import OperationPlan, compile_plan
from surehand.providers.openapi.request import build_operation_request
from surehand.providers.openapi.response_note import ResponseNotes
from surehand.providers.openapi.schema import SchemaConverter
from surehand.providers.openapi.search_tools import SEARCH_TOOL_NAMES, OperationSearch, build_search_tools
from surehand.providers.openapi.security import SecuritySchemes
from surehand.providers.openapi.servers import Servers
from surehand.providers.rest.auth import token_targets
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.sender import RestSender

log = logging.getLogger("surehand")
DocumentSource: TypeAlias = Callable[[], Awaitable[Document]]
MAX_SHOWN_OPERATIONS = 40
"""Operations up to which `show="auto"` shows a model all of them."""
READ_RETRIES = 2
"""Further attempts of an operation that only reads."""
MAX_LOGGED_SKIPPED = 10


class OpenApiProvider(ChangeNotifier, Provider):
    """The operations of one OpenAPI document. `openapi(...)` creates it.

    Args:
        load: reads the document; called when a runtime starts the provider.
    """

    kind: ToolKind = "rest"

    def __init__(
        self,
        load: DocumentSource,
        options: OpenApiOptions,
        http: HttpOptions | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.options = options
        self.namespace = options.namespace
        self.queue = options.queue
        self.timeout = options.timeout
        self.required = options.required
        self.on_conflict = options.on_conflict
        self.skipped: list[tuple[str, str]] = []
        """Operations that are left out, such as `GET /pets`, each with the reason; once the runtime is open."""
        self._load = load
        self._http = http
        self._environment = environment
        self._operations: dict[str, Operation] = {}
        self._excluded: frozenset[str] = frozenset()
        self._plans: dict[str, OperationPlan] = {}
        self._broken: set[str] = set()
        """Names of operations that turned out to be unusable when they were compiled."""
        self._tools: list[Tool[..., Any]] = []
        self._search_tools: list[Tool[..., Any]] = []
        self._looked_up = LookedUpOperations()
        self._search: OperationSearch | None = None
        self._pins = PinnedOperations(options.namespace, options.lock, frozen=options.frozen)
        self._sender: RestSender | None = None
        self._reader = ResponseReader()
        self._presentations: dict[tuple[HttpTarget, bool], Presentation] = {}
        self._runtime_count = 0
        """How many runtimes have started it and not stopped it."""
        self._start_lock = asyncio.Lock()

    # Start and stop

    async def start(self) -> None:
        """Read the document and open the connections' pool."""
        async with self._start_lock:  # a runtime that starts at the same time waits for the document
            if self._runtime_count == 0:
                await self._import(await self._load())
            self._runtime_count += 1

    async def stop(self) -> None:
        """Close every connection when the last runtime stops the provider."""
        async with self._start_lock:
            self._runtime_count = max(self._runtime_count - 1, 0)
            if self._runtime_count > 0:
                return
            sender, self._sender = self._sender, None
            if sender is not None:
                await sender.aclose()

    async def _import(self, document: Document) -> None:
        self._document = document
        self._converter = SchemaConverter(document)
        self._servers = Servers(document, self.options.server, self.options.server_variables)
        self._security = SecuritySchemes(document, self.options.auth)
        self._notes = ResponseNotes(document)
        self._plans = {}
        self._broken = set()
        targets = self._select_operations(document)
        tokens = [target for auth in self._security.auths for target in token_targets(auth)]
        self._sender = RestSender([*targets, *tokens], http=self._http, environment=self._environment)
        self._log_skipped()
        has_search = self._has_search
        self._search = None
        if has_search:
            self._search = OperationSearch(self.namespace, self._operations, self._looked_up, self._pins.is_held_back)
        tools = [
            self._build_tool(name, operation, is_listed=not has_search) for name, operation in self._operations.items()
        ]
        if self._pins.is_active:
            await asyncio.to_thread(self._pins.check, self._main_address, document, self._operations, tools)
            tools = self._pins.tools
        self._search_tools = self._build_search_tools()
        self._tools = [*self._search_tools, *tools]

    def _build_search_tools(self) -> list[Tool[..., Any]]:
        if self._search is None:
            return []
        return build_search_tools(self.namespace, self._title, len(self._operations))

    def _select_operations(self, document: Document) -> set[HttpTarget]:
        """Choose and name the operations; returns the addresses that they may reach."""
        collected = collect_operations(document)
        selection = self.options.selection
        for pattern in selection.unmatched(collected.operations):
            log.warning("%s has no operation that matches %r of include or exclude.", self.namespace, pattern)
        selected = [operation for operation in collected.operations if selection.accepts(operation)]
        is_large = len(selected) > MAX_SHOWN_OPERATIONS
        self._has_search = self.options.show == "search" or (self.options.show == "auto" and is_large)
        reserved = SEARCH_TOOL_NAMES if self._has_search else frozenset[str]()
        # Named before the selection: a filter must not change the name of an operation.
        named = assign_names(collected.operations, self.namespace, reserved)
        checker = OperationChecker(document)
        chosen = set(map(id, selected))
        self.skipped = list(collected.skipped)
        self._operations = {}
        targets: dict[str, HttpTarget] = {}
        for name, operation in named.items():
            if id(operation) not in chosen:
                continue
            problem = checker.find_problem(operation)
            if problem is None:
                try:
                    target = self._servers.target_of(operation)
                except UnusableOperation as error:
                    problem = str(error)
                else:
                    targets[target.url] = target
                    self._operations[name] = operation
            if problem is not None:
                self.skipped.append((operation.label, problem))
        self._excluded = frozenset(name for name, operation in named.items() if id(operation) not in chosen)
        self._require_server(selected)
        return set(targets.values())

    def _require_server(self, selected: list[Operation]) -> None:
        """Raise if no operation can be called, because the document does not say where to."""
        if self._operations or not selected:
            return
        try:
            self._servers.main_target()
        except UnusableOperation as error:
            fix = 'give server="https://api.example.com".'
            raise DefinitionError(f"{self.namespace}: {error}", fix=fix) from None

    def _log_skipped(self) -> None:
        for label, reason in self.skipped[:MAX_LOGGED_SKIPPED]:
            log.warning("%s leaves out %s: %s", self.namespace, label, reason)
        if len(self.skipped) > MAX_LOGGED_SKIPPED:
            log.warning("%s leaves out %d more.", self.namespace, len(self.skipped) - MAX_LOGGED_SKIPPED)

    @property
    def _title(self) -> str:
        info = self._document.root.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        return " ".join(title.split())[:100] if isinstance(title, str) else ""

    @property
    def _main_address(self) -> str:
        try:
            return self._servers.main_target().url
        except UnusableOperation:
            return ""

    # Tools

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools of all operations that can be used."""
        return self._tools

    def _build_tool(self, name: str, operation: Operation, *, is_listed: bool) -> Tool[..., Any]:
        is_reading = operation.method in READING_METHODS
        safety = Safety(
            effects=_READ if is_reading else _WRITE, repeatable=is_reading, preview=partial(self._preview, name)
        )
        target = self._servers.target_of(operation)
        return Tool(
            name,
            OperationDescription(operation),
            OperationParameters(operation, partial(self._plan_of, name)),
            None,
            kind="rest",
            safety=safety,
            limits=_READ_LIMITS if is_reading else _WRITE_LIMITS,
            presentation=self._presentation(target, is_listed),
            where=operation.label,
        )

    def _presentation(self, target: HttpTarget, is_listed: bool) -> Presentation:
        """Its version is the server, which an approval is bound to. Tools of one server share it."""
        key = (target, is_listed)
        if key not in self._presentations:
            version = sha256(target.url.encode()).hexdigest()
            self._presentations[key] = Presentation("network", listed=is_listed, visible=False, version=version)
        return self._presentations[key]

    def _plan_of(self, name: str) -> OperationPlan:
        """The plan of an operation, compiled once. Raises `UnusableOperation`, and notes it in `skipped`."""
        plan = self._plans.get(name)
        if plan is None:
            operation = self._operations[name]
            try:
                plan = compile_plan(
                    self._document,
                    self._converter,
                    operation,
                    target=self._servers.target_of(operation),
                    auth=self._security.auth_for(operation),
                    given=self.options.given,
                )
            except UnusableOperation as error:
                if name not in self._broken:
                    self._broken.add(name)
                    self.skipped.append((operation.label, str(error)))
                raise
            self._plans[name] = plan
        return plan

    @property
    def operation_count(self) -> int:
        """How many operations can be called, as far as they have been compiled."""
        return len(self._operations) - len(self._broken)

    def check_operations(self) -> list[tuple[str, str]]:
        """Compile every operation, and return those that are left out with the reasons; `doctor` calls it."""
        for name in self._operations:
            try:
                self._plan_of(name)
            except UnusableOperation:
                continue
        return self.skipped

    def refusal_reason(self, tool: str) -> str | None:
        """Why an operation of the document is not offered."""
        return f"include or exclude of {self.namespace} leave it out" if tool in self._excluded else None

    def looked_up_tools(self, principal: Principal) -> Sequence[str]:
        """The operations that the model of this session has looked up, and is shown from then on."""
        names = self._looked_up.names_for(principal)
        return [name for name in names if name in self._operations and not self._pins.is_held_back(name)]

    def instructions(self, principal: Principal) -> str:
        """How to find operations, if not all are shown."""
        held_back = self._pins.summary()
        if self._search is None:
            return held_back
        found = f"{self.namespace}__search finds operations of {self._title or self.namespace} by words, "
        text = f"{found}{self.namespace}__describe shows one, and {self.namespace}__call calls one by its name."
        return "\n\n".join(filter(None, (text, held_back)))

    # Calls

    async def check_call(self, call: Call) -> None:
        """Refuse a call of an operation that is held back."""
        await self._refuse_held_back(call.tool)

    async def _refuse_held_back(self, name: str) -> None:
        if not self._pins.is_held_back(name):
            return
        if await asyncio.to_thread(self._pins.compare):
            self._tools = [*self._search_tools, *self._pins.tools]
            self.notify_changed()
        self._pins.refuse_held_back(name)

    async def invoke(self, call: Call, context: Context) -> Any:
        """Send the request of a call, or run one of the search tools."""
        arguments = cast("dict[str, Any]", call.arguments)  # validated
        if self._search is not None and call.tool in SEARCH_TOOL_NAMES:
            return await self._search.invoke(call.tool, arguments, context)
        await self._refuse_held_back(call.tool)
        plan, request = await self._build_request(call.tool, arguments, context)
        sender = self._require_sender()
        done = await sender.send(request, self._reader, context.report, auth=plan.auth)
        return self._with_note(plan, done)

    def _with_note(self, plan: OperationPlan, done: Done) -> Done:
        note = self._notes.note_for(plan.operation, done.data)
        return done.evolve(metadata={**done.metadata, "note": note}) if note else done

    async def _build_request(
        self, name: str, arguments: Mapping[str, Any], context: Context
    ) -> tuple[OperationPlan, HttpRequest]:
        if name not in self._operations:
            raise NotFound(f"{self.namespace} has no operation {name}.")
        try:
            plan = self._plan_of(name)
        except UnusableOperation as error:
            raise NotStarted(f"{name} cannot be called: {error}") from None
        values = dict(arguments)
        for argument, key in plan.given_arguments.items():
            values[argument] = await self._given_value(key, context)
        if plan.file_arguments:
            values = await read_files(values, plan.file_arguments, context)
        return plan, build_operation_request(plan, values, context.idempotency_key)

    async def _given_value(self, key: str, context: Context) -> Any:
        value = self.options.given[key]
        if not callable(value):
            return value
        result = value(context)
        return await result if inspect.isawaitable(result) else result

    async def _preview(self, name: str, arguments: dict[str, Any], context: Context) -> str:
        """The request that a person is asked about, without secrets."""
        plan, request = await self._build_request(name, arguments, context)
        return self._require_sender().preview(request, auth=plan.auth)

    def _require_sender(self) -> RestSender:
        if self._sender is None:
            raise NotStarted(f"{self.namespace} is not started.")
        return self._sender


_READ = frozenset({"read"})
_WRITE = frozenset({"write"})
_READ_LIMITS = CallLimits(retries=READ_RETRIES)
_WRITE_LIMITS = CallLimits()
