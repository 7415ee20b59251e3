"""An OpenAPI document as a provider: lists a tool for every operation, and sends the requests of their calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias, cast

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.errors import NotFound, NotStarted
from surehand.core.facets import CallLimits, Presentation, Safety, ToolKind
from surehand.core.protocols import ChangeNotifier, HeldBackDefinition, ServerStatus
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.http.request import HttpRequest
from surehand.http.settings import HttpOptions
from surehand.http.target import HttpTarget
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.files import read_files
from surehand.providers.openapi.given_fields import fill_fields
from surehand.providers.openapi.imported_document import ImportedDocument, import_document
from surehand.providers.openapi.lazy_tool import OperationDescription, OperationParameters
from surehand.providers.openapi.looked_up_operations import LookedUpOperations
from surehand.providers.openapi.operation_plans import OperationPlans
from surehand.providers.openapi.operations import READING_METHODS, Operation
from surehand.providers.openapi.options import OpenApiOptions
from surehand.providers.openapi.pinned_operations import PinnedOperations
from surehand.providers.openapi.plan import OperationPlan
from surehand.providers.openapi.request import build_operation_request
from surehand.providers.openapi.response_note import ResponseNotes
from surehand.providers.openapi.search_tools import SEARCH_TOOL_NAMES, OperationSearch, build_search_tools
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.sender import RestSender
from surehand.providers.trust.definition_diff import held_back_definition

log = logging.getLogger("surehand")
DocumentSource: TypeAlias = Callable[[], Awaitable[Document]]
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
        self._imported: ImportedDocument | None = None
        self._operations: Mapping[str, Operation] = {}
        self._plans: OperationPlans | None = None
        self._notes: ResponseNotes | None = None
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
        # In threads: all this takes seconds for a large document.
        imported = await asyncio.to_thread(import_document, document, self.options)
        self._imported = imported
        self._operations = imported.operations
        self.skipped = imported.skipped
        self._notes = ResponseNotes(document)
        self._plans = plans = OperationPlans(imported, self.options.given)
        self._log_skipped()
        private_targets = await asyncio.to_thread(imported.private_targets)
        self._sender = RestSender(private_targets, http=self._http, environment=self._environment)
        tools = await asyncio.to_thread(self._build_tools, imported, plans)
        if self._pins.is_active:
            address = imported.main_address
            await asyncio.to_thread(self._pins.check, address, document, self._operations, tools)
            tools = self._pins.tools
        self._search = None
        self._search_tools = []
        if imported.has_search:
            self._search = OperationSearch(self.namespace, self._operations, self._looked_up, self._pins.is_held_back)
            self._search_tools = build_search_tools(self.namespace, imported.title, len(self._operations))
        self._tools = [*self._search_tools, *tools]

    def _log_skipped(self) -> None:
        for label, reason in self.skipped[:MAX_LOGGED_SKIPPED]:
            log.warning("%s leaves out %s: %s", self.namespace, label, reason)
        if len(self.skipped) > MAX_LOGGED_SKIPPED:
            log.warning("%s leaves out %d more.", self.namespace, len(self.skipped) - MAX_LOGGED_SKIPPED)

    # Tools

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools of all operations that can be used."""
        return self._tools

    def _build_tools(self, imported: ImportedDocument, plans: OperationPlans) -> list[Tool[..., Any]]:
        tools: list[Tool[..., Any]] = []
        for name, operation in imported.operations.items():
            is_reading = operation.method in READING_METHODS
            tools.append(
                Tool(
                    name,
                    OperationDescription(operation),
                    OperationParameters(operation, partial(plans.get, name)),
                    None,
                    kind="rest",
                    safety=Safety(
                        effects=_READ if is_reading else _WRITE,
                        repeatable=is_reading,
                        preview=partial(self._preview, name),
                    ),
                    limits=_READ_LIMITS if is_reading else _WRITE_LIMITS,
                    presentation=self._presentation(imported.servers.target_of(operation), not imported.has_search),
                    where=operation.label,
                )
            )
        return tools

    def _presentation(self, target: HttpTarget, is_listed: bool) -> Presentation:
        """Its version is the server, which an approval is bound to. Tools of one server share it."""
        key = (target, is_listed)
        if key not in self._presentations:
            version = sha256(target.url.encode()).hexdigest()
            self._presentations[key] = Presentation("network", listed=is_listed, visible=False, version=version)
        return self._presentations[key]

    @property
    def operation_count(self) -> int:
        """How many operations can be called, as far as they have been compiled."""
        return 0 if self._plans is None else len(self._operations) - self._plans.unusable_count

    def check_operations(self) -> list[tuple[str, str]]:
        """Compile every operation, and return those that are left out with the reasons; `doctor` calls it."""
        for name in self._operations:
            with suppress(UnusableOperation):  # it is in `skipped` then
                self._require_plans().get(name)
        return self.skipped

    def refusal_reason(self, tool: str) -> str | None:
        """Why an operation of the document is not offered."""
        excluded = frozenset() if self._imported is None else self._imported.excluded
        return f"include or exclude of {self.namespace} leave it out" if tool in excluded else None

    def looked_up_tools(self, principal: Principal) -> Sequence[str]:
        """The operations that the model of this session has looked up, and is shown from then on."""
        names = self._looked_up.names_for(principal)
        return [name for name in names if name in self._operations and not self._pins.is_held_back(name)]

    def instructions(self, principal: Principal) -> str:
        """How to find operations, if not all are shown."""
        held_back = self._pins.summary()
        if self._search is None or self._imported is None:
            return held_back
        found = f"{self.namespace}__search finds operations of {self._imported.title or self.namespace} by words, "
        text = f"{found}{self.namespace}__describe shows one, and {self.namespace}__call calls one by its name."
        return "\n\n".join(filter(None, (text, held_back)))

    # For people

    async def server_status(self) -> ServerStatus:
        """Where its requests go. No connection stays open between them, so it is up once the document is read."""
        imported = self._imported
        return ServerStatus(
            state="idle" if imported is None else "up",
            address="" if imported is None else imported.main_address,
            server_name="" if imported is None else imported.title,
        )

    async def held_back_definitions(self) -> Sequence[HeldBackDefinition]:
        """The operations that have changed since they were pinned, each with its diff."""
        return [held_back_definition(change) for change in await asyncio.to_thread(self._pins.read_held_back)]

    async def accept_definition(self, tool: str | None, sha256: str) -> None:
        """Accept an operation that a person has reviewed."""
        await asyncio.to_thread(self._pins.accept, tool, sha256)
        if self._imported is not None:
            await self._compare_pins()

    # Calls

    async def check_call(self, call: Call) -> None:
        """Refuse a call of an operation that is held back."""
        await self._refuse_held_back(call.tool)

    async def _refuse_held_back(self, name: str) -> None:
        if not self._pins.is_held_back(name):
            return
        await self._compare_pins()
        self._pins.refuse_held_back(name)

    async def _compare_pins(self) -> None:
        """Offer the operations that a person has accepted meanwhile."""
        if await asyncio.to_thread(self._pins.compare):
            self._tools = [*self._search_tools, *self._pins.tools]
            self.notify_changed()

    async def invoke(self, call: Call, context: Context) -> Any:
        """Send the request of a call, or run one of the search tools."""
        arguments = cast("dict[str, Any]", call.arguments)  # validated
        if self._search is not None and call.tool in SEARCH_TOOL_NAMES:
            return await self._search.invoke(call.tool, arguments, context)
        await self._refuse_held_back(call.tool)
        plan, request = await self._build_request(call.tool, arguments, context)
        sender = self._require_sender()
        done = await sender.send(request, self._reader, context.report, auth=plan.auth)
        note = "" if self._notes is None else await self._notes.find_note(plan.operation, done.data)
        return done.evolve(metadata={**done.metadata, "note": note}) if note else done

    async def _build_request(
        self, name: str, arguments: Mapping[str, Any], context: Context
    ) -> tuple[OperationPlan, HttpRequest]:
        if name not in self._operations:
            raise NotFound(f"{self.namespace} has no operation {name}.")
        try:
            plan = self._require_plans().get(name)
        except UnusableOperation as error:
            raise NotStarted(f"{name} cannot be called: {error}") from None
        values = dict(arguments)
        for argument, key in plan.given_arguments.items():
            values[argument] = await self._given_value(key, context)
        if self.options.given and plan.body_argument is not None and plan.body_argument in arguments:
            filled = {name: await self._given_value(key, context) for name, key in plan.given_body_fields.items()}
            values[plan.body_argument] = fill_fields(arguments[plan.body_argument], filled, self.options.given)
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

    def _require_plans(self) -> OperationPlans:
        if self._plans is None:
            raise NotStarted(f"{self.namespace} is not started.")
        return self._plans

    def _require_sender(self) -> RestSender:
        if self._sender is None:
            raise NotStarted(f"{self.namespace} is not started.")
        return self._sender


_READ = frozenset({"read"})
_WRITE = frozenset({"write"})
_READ_LIMITS = CallLimits(retries=READ_RETRIES)
_WRITE_LIMITS = CallLimits()
