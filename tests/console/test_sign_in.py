"""Signing in to an MCP server from the page Servers, with a real authorization server."""

import pytest
from playwright.async_api import expect

from surehand import mcp
from tests.console.browser import open_console, take_screenshot
from tests.console.demo_tools import build_runtime
from tests.gateway.api.served_gateway import serve
from tests.http.server import only_loopback
from tests.providers.mcp.oauth_server import run_oauth_server


@pytest.fixture
def authority(monkeypatch):
    only_loopback(monkeypatch)
    with run_oauth_server() as authority:
        yield authority


def build_guarded_server(authority, tmp_path):
    auth = mcp.oauth(tokens=tmp_path / "tokens", interactive=False)
    return mcp.http(authority.url, namespace="notes", auth=auth, manifest=False)


async def test_a_person_signs_in_and_the_page_shows_it_by_itself(authority, tmp_path):
    runtime = build_runtime(build_guarded_server(authority, tmp_path), store=tmp_path / "s.db")
    async with serve(runtime) as served, open_console(served.url, "#/servers/notes") as page:
        await expect(page.get_by_text("Nobody is signed in.", exact=True)).to_be_visible()
        await expect(page.get_by_text("Last error")).to_be_visible()
        await page.get_by_role("button", name="Sign in").click()
        link = page.get_by_role("link", name="Open the sign-in page of 127.0.0.1")
        await expect(link).to_have_attribute("rel", "noopener noreferrer")
        await take_screenshot(page, "servers-sign-in")
        async with page.context.expect_page() as opened:
            await link.click()
        tab = await opened.value
        await expect(tab.get_by_text("Thank you. You may close this window")).to_be_visible()
        await expect(page.get_by_text("Signed in.", exact=True)).to_be_visible()
        await expect(page.locator(".detail-pane .subhead")).to_have_text("up")
        answer = await served.call("notes__whoami")
        audit = (await served.client.get("/api/audit")).json()["items"]

    assert answer.json()["data"] == {"result": "ada"}
    assert ("granted", "notes") in [(row["kind"], row["tool"]) for row in audit]


async def test_a_sign_in_that_is_refused_says_so_and_can_be_begun_again(authority, tmp_path):
    authority.refuses = True
    runtime = build_runtime(build_guarded_server(authority, tmp_path), store=tmp_path / "s.db")
    async with serve(runtime) as served, open_console(served.url, "#/servers/notes") as page:
        await page.get_by_role("button", name="Sign in").click()
        async with page.context.expect_page():
            await page.get_by_role("link", name="Open the sign-in page").click()
        await expect(page.get_by_text("The sign-in was refused (access_denied).")).to_be_visible()
        await expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
