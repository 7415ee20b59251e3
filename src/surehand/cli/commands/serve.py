"""`surehand serve`: serve the tools over HTTP, with the gateway's API and its MCP endpoint."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.file_changes import FileChanges
from surehand.cli.lifecycle import fastest_loop_factory, run_coroutine
from surehand.cli.options import RuntimeOptions, error_message, with_tools_and_store
from surehand.cli.serve_address import DEFAULT_HOST, DEFAULT_PORT, ServeAddress
from surehand.cli.serving import (
    exit_on_serve_error,
    log_crashes,
    print_stderr,
    silence_library_logs,
    warn_without_store,
)
from surehand.config.config import Config
from surehand.config.errors import ConfigError

if TYPE_CHECKING:
    from surehand.config.gateway_section import GatewaySettings
    from surehand.gateway.http_app import GatewayApp
    from surehand.gateway.replaceable_app import ReplaceableApp

log = logging.getLogger("surehand")
NO_STORE_WARNING = "No store: calls that wait are lost when this process ends. Add --store calls.db"
MAX_CONNECTIONS = 4_096
WATCH_SECONDS = 1.0
ADDRESS_SETTINGS = ("host", "port", "token_env")
"""What a server takes from the configuration when it starts, and not again."""


@click.command("serve")
@click.option("--host", metavar="ADDRESS", help=f"The address to listen on [{DEFAULT_HOST}]; others need a token.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"The port [{DEFAULT_PORT}]; 0 picks a free one.")
@click.option("--token-env", metavar="NAME", help="The environment variable with the operator's token.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A further host name that clients may use.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="An origin whose web pages may connect.")
@with_tools_and_store
def command(
    runtime_options: RuntimeOptions,
    host: str | None,
    port: int | None,
    token_env: str | None,
    names: tuple[str, ...],
    origins: tuple[str, ...],
) -> None:
    """Serve the tools and agents over HTTP until Ctrl-C: the API at /api, its description at /docs, MCP at /mcp.

    With a store, runs of the agents go on by themselves when what they wait for is answered.

    Options replace what the section `gateway` of the configuration says. A change of the file takes effect within
    seconds.
    """
    settings = runtime_options.load_config().gateway
    address = ServeAddress(
        host or settings.host or DEFAULT_HOST,
        next(value for value in (port, settings.port, DEFAULT_PORT) if value is not None),
        "",
        token_env or settings.token_env,
        names,
        origins,
        has_other_tokens=bool(settings.tokens),
    )
    with exit_on_serve_error(), silence_library_logs(), log_crashes():
        server = _Server(runtime_options, address, address.token)
        run_coroutine(server.run(), fastest_loop_factory())


@dataclass(frozen=True, slots=True)
class _Server:
    """Serves the configured tools, and replaces them when the configuration changes."""

    options: RuntimeOptions
    address: ServeAddress
    token: str | None

    async def run(self) -> None:
        """Serve until a signal arrives."""
        # Imported here: they bring FastAPI, the MCP SDK and uvicorn; `exit_on_serve_error` reports a missing extra.
        from surehand.gateway.mcp.http.connection_table import ConnectionLimits
        from surehand.gateway.mcp.http.server import listen
        from surehand.gateway.replaceable_app import ReplaceableApp

        sockets = self.address.bind_sockets()
        port = sockets[0].getsockname()[1]
        with ExitStack() as closing, redirect_stdout(sys.stderr):  # keep the prints of tools off stdout
            for each in sockets:
                closing.enter_context(each)
            config = self.options.load_config()
            first = self._build(config, port)
            application = ReplaceableApp(first)

            def ready() -> None:
                print_stderr(f"Serving over HTTP at {self.address.url(port)} until Ctrl-C.")
                print_stderr(f"MCP clients connect to {self.address.client_url(port)}/mcp")
                warn_without_store(first.gateway.runtime, NO_STORE_WARNING)
                gc.freeze()  # what was loaded stays, and collections need not walk it

            watcher = asyncio.create_task(self._watch(config, application, port), name="watch the configuration")
            stop_timeout = first.gateway.limiter.limits.shutdown_seconds
            limits = ConnectionLimits(max_connections=MAX_CONNECTIONS, stop_timeout=stop_timeout)
            try:
                await listen(
                    application,
                    sockets,
                    ready=ready,
                    on_stop=application.begin_shutdown,
                    limits=limits,
                    refusal=application.early_refusal,
                )
            finally:
                watcher.cancel()
                await asyncio.wait({watcher})

    def _build(self, config: Config, port: int) -> GatewayApp:
        from surehand.assemble.http_gateway import build_gateway  # brings FastAPI and the MCP SDK

        runtime, agents = self.options.build_runtime_with_agents()
        try:
            return build_gateway(
                runtime,
                config.gateway,
                agents=agents.values(),
                token=self.token,
                hosts=self.address.allowed_hosts_with_port(port),
                origins=self.address.allowed_origins,
                port=port,
                url=self.address.client_url(port),
            )
        except ConfigError as error:
            raise CommandExit(EXIT_USAGE, error_message(error)) from error

    async def _watch(self, config: Config, application: ReplaceableApp, port: int) -> None:
        """Replace the app when the configuration file changes; a file with a mistake changes nothing."""
        path = config.path
        if path is None:
            return
        changes = FileChanges(path)
        first = current = config.gateway
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not changes.has_new_version():
                continue
            try:
                new = self._load_with_tokens(current)
                if not changes.is_unchanged():  # it was read while it was written
                    continue
                if await self._reload(application, port, new, first):
                    current = new.gateway
            except CommandExit as error:
                log.warning("The configuration has a mistake, and the old one stays in force: %s", error.message)
            except Exception:
                log.exception("The new configuration could not be started, and the old one stays in force")

    async def _reload(self, application: ReplaceableApp, port: int, config: Config, first: GatewaySettings) -> bool:
        """Serve with another configuration; returns whether that takes effect now."""
        new = self._build(config, port)
        if not new.gateway.runtime.is_durable:
            log.warning(
                "The configuration changed. It takes effect at a restart: without a store, waits would be lost."
            )
            return False
        await application.replace(new)
        log.warning("The configuration changed, and takes effect for new requests.")
        changed = [name for name in ADDRESS_SETTINGS if getattr(config.gateway, name) != getattr(first, name)]
        if changed:
            log.warning("What changed of gateway: {%s} takes effect at a restart.", ", ".join(changed))
        return True

    def _load_with_tokens(self, current: GatewaySettings) -> Config:
        """The new configuration; raises `CommandExit` if it, maybe half written, has none of the tokens of the old one.

        The server may be reached from other machines, also through a proxy when it listens on this machine only.
        """
        config = self.options.load_config()
        if current.tokens and not config.gateway.tokens and self.token is None:
            problem = "It has no gateway: {tokens: ...} any more, so every client could do everything."
            raise CommandExit(EXIT_USAGE, f"{problem} List a token, or restart to serve without any.")
        return config
