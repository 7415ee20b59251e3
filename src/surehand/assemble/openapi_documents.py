"""Builds the providers of the OpenAPI documents in a configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from surehand.assemble.http_client import load_http_options
from surehand.config.config import LOCK_FILE_NAME, Config
from surehand.config.openapi_section import OpenApiEntry
from surehand.core.errors import DefinitionError
from surehand.providers.openapi.factory import is_url, openapi
from surehand.providers.openapi.provider import OpenApiProvider


def build_openapi_providers(config: Config, environment: Mapping[str, str]) -> list[OpenApiProvider]:
    """Build a provider for every document of the section. No document is read yet."""
    return [build_openapi_provider(config, entry, environment) for entry in config.openapi]


def build_openapi_provider(config: Config, entry: OpenApiEntry, environment: Mapping[str, str]) -> OpenApiProvider:
    """Build the provider of one document; mistakes are errors at its position in the file."""
    options = {"namespace": entry.name, **entry.options}
    queue = options.get("queue")
    if queue is not None and queue not in config.queues:
        problem = f"{entry.name} names the queue {queue!r}, which the file does not set up."
        raise entry.node.error(problem, "add it to queues.")
    document = entry.document if is_url(entry.document) else config.base_folder / entry.document
    try:
        if "http" in options:
            options["http"] = load_http_options(options["http"], config.base_folder)
        return openapi(document, lock=_lock_path(config, entry), environment=environment, **options)
    except DefinitionError as error:
        raise entry.node.error(f"{entry.name}: {error.problem}", error.fix) from error


def _lock_path(config: Config, entry: OpenApiEntry) -> Path | None:
    return None if entry.lock is None else config.base_folder / (entry.lock or LOCK_FILE_NAME)
