"""Checks the names of fields that the keys of an object become: none may repeat a field that something else fills.

An exploded object adds a field for each of its keys. A key that is the name of another parameter would send that field
twice, and a server that takes the last one would take the model's value in place of one that `given` or `auth` fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from surehand.core.errors import InvalidArguments
from surehand.http.errors import mark_unsent
from surehand.providers.openapi.body import styled_names
from surehand.providers.openapi.plan import OperationPlan
from surehand.providers.openapi.styles import PLAIN_FIELDS, styled_fields
from surehand.providers.rest.auth import ApiKeyAuth, single_auths


def check_field_names(plan: OperationPlan, arguments: Mapping[str, Any], body: Any) -> None:
    """Raise `InvalidArguments` if a key of an argument is a field of its place that something else fills.

    Args:
        body: the value of the body; its fields, if it is an object.
    """
    _check_parameters(plan, arguments, "query", _fixed_query_names(plan))
    _check_parameters(plan, arguments, "cookie", ())
    if plan.body is None or not isinstance(body, dict):
        return
    names = {name: styled_names(plan.body, name, value) for name, value in body.items()}
    _check(names, {*plan.body_fields.values(), *names}, ())


def _check_parameters(plan: OperationPlan, arguments: Mapping[str, Any], place: str, fixed: Iterable[str]) -> None:
    auth_names = [each.name for each in single_auths(plan.auth) if isinstance(each, ApiKeyAuth) and each.place == place]
    declared = {each.name for each in plan.parameters.values() if each.place == place}
    names: dict[str, list[str]] = {}
    for argument, parameter in plan.parameters.items():
        value = arguments.get(argument)
        if parameter.place == "querystring" and place == "query" and isinstance(value, dict):
            names[parameter.name] = list(value)
        elif parameter.place == place and isinstance(value, dict) and not parameter.media_type:
            fields = styled_fields(parameter.name, value, parameter.style, parameter.explode, PLAIN_FIELDS)
            names[parameter.name] = [name for name, _ in fields]
    _check(names, declared, (*fixed, *auth_names))


def _fixed_query_names(plan: OperationPlan) -> list[str]:
    """Names of the fields in a path such as `/x?kind=a`."""
    query = plan.operation.path.partition("#")[0].partition("?")[2]
    return [name for name, _ in parse_qsl(query, keep_blank_values=True)]


def _check(names: Mapping[str, list[str]], declared: Iterable[str], fixed: Iterable[str]) -> None:
    """Compare the names that each field of a request becomes with those of all others.

    Args:
        names: what is sent for each field.
        declared: the names of all fields, also of those that are left out.
        fixed: names of fields that no argument can fill.
    """
    owners: dict[str, str | None] = {_normalize(each): each for each in declared}
    owners |= {_normalize(each): None for each in fixed}
    for field, written_names in names.items():
        for name in written_names:
            if name == field and owners.get(_normalize(name)) is not None:
                continue
            # Many servers read `account[]` and `account[id]` as values of `account`.
            for each in (_normalize(name), _normalize(name.partition("[")[0])):
                if owners.get(each, field) != field:
                    problem = f"{field} cannot have the key {name!r:.100}: another field of the request has that name."
                    raise mark_unsent(InvalidArguments(f"{problem} Leave the key out."))
            owners.setdefault(_normalize(name), field)


def _normalize(name: str) -> str:
    """A name as the least strict servers compare it."""
    return name.strip().casefold()
