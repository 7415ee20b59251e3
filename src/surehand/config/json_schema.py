"""The JSON Schema of the configuration file, with which editors complete and check it.

The parsers decide what is valid; the schema is more lenient where they look at several values together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from surehand.config.builtin_section import BUILTIN_SETTINGS
from surehand.config.gateway_section import (
    ANSWER_PARSERS,
    GATEWAY_PARSERS,
    LIMIT_PARSERS,
    TOKEN_PARSERS,
    WEBHOOK_PARSERS,
)
from surehand.config.sections import DEFAULTS_PARSERS, LOG_LEVELS
from surehand.core.facets import EFFECTS

Schema: TypeAlias = dict[str, Any]
SCHEMA_URL = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_DURATION_OR_OFF: Schema = {"type": ["number", "string", "boolean"], "description": "30, 30s, 5m or off"}
_SIZE: Schema = {"type": ["integer", "string"], "description": "100000 or 100kB"}
_ANY: Schema = {}


def config_schema() -> Schema:
    """The JSON Schema of `surehand.yaml`."""
    return {
        "$schema": SCHEMA_URL,
        "title": "surehand configuration",
        "type": "object",
        "properties": {
            "$schema": _TEXT,
            "defaults": _object(DEFAULTS_PARSERS, _DURATION_OR_OFF),
            "workspace": {"anyOf": [_TEXT, _WORKSPACE]},
            "builtin": {"type": "object", "properties": dict.fromkeys(BUILTIN_SETTINGS, _ANY)},
            "policy": _POLICY,
            "queues": {"type": "object", "additionalProperties": _QUEUE},
            "store": {**_TEXT, "description": "A file beside this one, or postgresql://..."},
            "tools": {"type": ["array", "object"]},
            "rest_tools": {"type": "object", "additionalProperties": {"type": "object"}},
            "restTools": {"type": "object"},
            "mcp_servers": _SERVERS,
            "mcpServers": _SERVERS,
            "servers": _SERVERS,
            "inputs": {"type": "array"},
            "openapi": {"type": "object", "additionalProperties": {"type": ["string", "object"]}},
            "agents": {"type": "object", "additionalProperties": {"type": "object"}},
            "log": {"enum": [*LOG_LEVELS, False]},
            "gateway": _GATEWAY,
        },
    }


def _object(names: Iterable[str], value: Schema, special: Mapping[str, Schema] | None = None) -> Schema:
    """A mapping with these keys and no others."""
    properties = {name: (special or {}).get(name, value) for name in names}
    return {"type": "object", "properties": properties}


_WORKSPACE: Schema = {
    **_object(("root", "extra", "read_only", "sensitive", "allowed_paths"), _TEXTS),
    "required": ["root"],
}
_WORKSPACE["properties"]["writes"] = {"type": "boolean"}
_RULE: Schema = {
    "type": "object",
    "properties": {
        "tools": _TEXTS,
        "effects": {"anyOf": [{"enum": sorted(EFFECTS)}, {"type": "array", "items": {"enum": sorted(EFFECTS)}}]},
        "arguments": {"type": "object"},
        "decision": {"enum": ["allow", "ask", "deny"]},
        "reason": _TEXT,
    },
    "required": ["decision"],
    "additionalProperties": False,
}
_RULES: Schema = {"type": "array", "items": _RULE}
_POLICY: Schema = {
    "anyOf": [_RULES, {"type": "object", "properties": {"rules": _RULES, "trust_annotations": {"type": "boolean"}}}]
}
_QUEUE: Schema = {
    "type": "object",
    "properties": {"concurrent": _COUNT, "rate": _TEXT, "shared": {"type": "boolean"}, "waiting": {"type": "integer"}},
    "additionalProperties": False,
}
_SERVERS: Schema = {"type": "object", "additionalProperties": {"type": "object"}}
_TOKEN: Schema = {
    **_object(TOKEN_PARSERS, _TEXT, {"scopes": _TEXTS, "concurrent": _COUNT}),
    "required": ["hash"],
    "additionalProperties": False,
}
_ANSWER: Schema = {**_object(ANSWER_PARSERS, _TEXTS), "required": ["by"], "additionalProperties": False}
_WEBHOOK: Schema = {
    **_object(WEBHOOK_PARSERS, _TEXTS, {"name": _TEXT, "url": _TEXT}),
    "required": ["name", "secret_env"],
    "additionalProperties": False,
}
_GATEWAY: Schema = {
    **_object(
        GATEWAY_PARSERS,
        _TEXT,
        {
            "port": {"type": "integer", "minimum": 0, "maximum": 65_535},
            "tokens": {"type": "array", "items": _TOKEN},
            "answers": {"type": "array", "items": _ANSWER},
            "webhooks": {"type": "array", "items": _WEBHOOK},
            "allow_hosts": _TEXTS,
            "allow_origins": _TEXTS,
            "limits": {**_object(LIMIT_PARSERS, _COUNT, {"body": _SIZE}), "additionalProperties": False},
        },
    ),
    "additionalProperties": False,
}
