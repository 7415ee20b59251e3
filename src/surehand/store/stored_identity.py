"""Stored identity: whose call a row of the journal or the audit is about, beside its user and session, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from surehand.core.call import CallIdentity
from surehand.store.database import to_storable_name

_NAME_FIELDS = ("agent", "space", "turn", "task", "parent", "model_id", "intent")
"""Fields of a `CallIdentity` that hold a name or an id; user and session have columns of their own."""


def identity_fields(identity: CallIdentity) -> dict[str, Any]:
    """The fields that hold something, display included; names are cut to the length that the journal allows."""
    fields = {name: to_storable_name(getattr(identity, name)) for name in _NAME_FIELDS}
    display = {"display": dict(identity.display)} if identity.display else {}
    return {name: value for name, value in fields.items() if value is not None} | display


def dump_identity(identity: CallIdentity) -> str | None:
    """The fields as JSON for a column; None if all are empty. What JSON cannot hold becomes a string."""
    fields = identity_fields(identity)
    return json.dumps(fields, default=str) if fields else None


def load_identity(text: str | None) -> Mapping[str, Any]:
    """The fields of a stored identity by name, those that are missing as None, and `display` as a mapping."""
    fields = json.loads(text) if text else {}
    return {name: fields.get(name) for name in _NAME_FIELDS} | {"display": fields.get("display") or {}}


def identity_fields_with_user(identity: CallIdentity) -> dict[str, Any]:
    """`identity_fields` with user and session, for inbox items and messages, without the usual intent `compute`."""
    named = {"user": to_storable_name(identity.user), "session": to_storable_name(identity.session)}
    fields = {name: value for name, value in named.items() if value is not None} | identity_fields(identity)
    if fields.get("intent") == "compute":
        del fields["intent"]
    return fields
