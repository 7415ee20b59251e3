"""Whom a scenario makes us: somebody with a browser, or a program with a secret or a key of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urljoin

import httpx2

from surehand import mcp
from tests.conformance.suite import Given

METADATA = "https://conformance-test.local/client-metadata.json"
"""Where the suite takes a client's metadata to be; nothing is fetched from there."""


async def identity(given: Given, folder: str) -> Any:
    """What `auth=` is given; sign-ins are kept in the folder."""
    known = given.context
    match given.scenario:
        case "auth/client-credentials-basic":
            return mcp.client_credentials(known["client_id"], known["client_secret"])
        case "auth/client-credentials-jwt":
            key, algorithm = known["private_key_pem"], known["signing_algorithm"]
            return mcp.client_credentials(known["client_id"], private_key=key, algorithm=algorithm)
        case "auth/enterprise-managed-authorization":
            return await _employee(given.url, known)
        case scenario if scenario.startswith("auth/"):
            return _person(known, folder)
    return None


def _person(known: Mapping[str, Any], folder: str) -> Any:
    return mcp.oauth(
        client_id=known.get("client_id"),
        client_secret=known.get("client_secret"),
        issuer=known.get("issuer"),
        client_metadata_url=METADATA,
        tokens=folder,
        open=_browse,
        interactive=True,
    )


async def _browse(url: str) -> None:
    """A person who agrees to everything: the browser follows each redirect, back to us."""
    async with _web() as client:
        await client.get(url)


async def _employee(url: str, known: Mapping[str, Any]) -> Any:
    return mcp.identity_assertion(
        known["client_id"],
        known["client_secret"],
        issuer=await _issuer(url),
        assertion=partial(_vouched, known),
        method="client_secret_basic",
    )


async def _issuer(url: str) -> str:
    """An enterprise knows the authorisation server of its own; the suite does not tell us."""
    async with _web() as client:
        answer = await client.get(urljoin(url, "/.well-known/oauth-protected-resource/mcp"))
        return str(answer.json()["authorization_servers"][0])


async def _vouched(known: Mapping[str, Any], audience: str, resource: str) -> str:
    """The identity provider's word for a user, in exchange for the token of that user."""
    wanted = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "subject_token": known["idp_id_token"],
        "client_id": known["idp_client_id"],
        "audience": audience,
        "resource": resource,
    }
    async with _web() as client:
        return str((await client.post(known["idp_token_endpoint"], data=wanted)).json()["access_token"])


def _web() -> httpx2.AsyncClient:
    """Without certificates, which take long to load and are of no use on loopback."""
    return httpx2.AsyncClient(follow_redirects=True, verify=False)
