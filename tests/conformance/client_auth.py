"""The credentials that our client uses in each scenario: a user with a browser, a client secret, or a private key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urljoin

import httpx2

from surehand import mcp
from tests.conformance.suite import ScenarioInput

CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The URL that the suite expects for the client's metadata; nothing fetches it."""


async def client_auth(scenario_input: ScenarioInput, folder: str) -> Any:
    """The value of `auth=` for a scenario; tokens are stored in the folder."""
    credentials = scenario_input.context
    match scenario_input.scenario:
        case "auth/client-credentials-basic":
            return mcp.client_credentials(credentials["client_id"], credentials["client_secret"])
        case "auth/client-credentials-jwt":
            key, algorithm = credentials["private_key_pem"], credentials["signing_algorithm"]
            return mcp.client_credentials(credentials["client_id"], private_key=key, algorithm=algorithm)
        case "auth/enterprise-managed-authorization":
            return await _enterprise_user(scenario_input.url, credentials)
        case scenario if scenario.startswith("auth/"):
            return _browser_user(credentials, folder)
    return None


def _browser_user(credentials: Mapping[str, Any], folder: str) -> Any:
    return mcp.oauth(
        client_id=credentials.get("client_id"),
        client_secret=credentials.get("client_secret"),
        issuer=credentials.get("issuer"),
        client_metadata_url=CLIENT_METADATA_URL,
        tokens=folder,
        open=_follow_redirects,
        interactive=True,
    )


async def _follow_redirects(url: str) -> None:
    """Act as a browser whose user consents to everything: follow each redirect back to the client."""
    async with _http_client() as client:
        await client.get(url)


async def _enterprise_user(url: str, credentials: Mapping[str, Any]) -> Any:
    return mcp.identity_assertion(
        credentials["client_id"],
        credentials["client_secret"],
        issuer=await _authorization_server(url),
        assertion=partial(_identity_assertion, credentials),
        method="client_secret_basic",
    )


async def _authorization_server(url: str) -> str:
    """Discover the authorization server. An enterprise would configure it, but the suite does not provide it."""
    async with _http_client() as client:
        answer = await client.get(urljoin(url, "/.well-known/oauth-protected-resource/mcp"))
        return str(answer.json()["authorization_servers"][0])


async def _identity_assertion(credentials: Mapping[str, Any], audience: str, resource: str) -> str:
    """Exchange the user's token for an identity assertion at the identity provider."""
    request = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "subject_token": credentials["idp_id_token"],
        "client_id": credentials["idp_client_id"],
        "audience": audience,
        "resource": resource,
    }
    async with _http_client() as client:
        return str((await client.post(credentials["idp_token_endpoint"], data=request)).json()["access_token"])


def _http_client() -> httpx2.AsyncClient:
    """An HTTP client without certificate checks: certificates take long to load and loopback needs none."""
    return httpx2.AsyncClient(follow_redirects=True, verify=False)
