"""The console in a real headless Chromium. A page that reported an error or broke its own CSP fails the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright, expect

from tests.requirements import CHROMIUM

SCREENSHOTS = Path(__file__).parents[2] / ".screenshots"
TIMEOUT_MS = 30_000
expect.set_options(timeout=TIMEOUT_MS)
# Runs before any script of the page: what the browser blocks, and what an attack would do.
_WATCH = """
window.__violations = [];
window.__attacked = [];
window.alert = window.confirm = window.prompt = (text) => window.__attacked.push(String(text));
document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(event.violatedDirective));
"""


class Problems:
    """What went wrong in a page. A refused request, which the browser always logs, is expected by its status."""

    def __init__(self, expected: tuple[str, ...]) -> None:
        self.expected = expected
        self.found: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.found.append(f"uncaught: {error}"))
        page.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.expected):
            self.found.append(f"{message.type}: {message.text}")


@asynccontextmanager
async def open_console(
    url: str,
    path: str = "#/inbox",
    *,
    width: int = 1280,
    height: int = 820,
    dark: bool = False,
    expected: tuple[str, ...] = (),
    **options: Any,
) -> AsyncIterator[Page]:
    """A page with the console; `expected` are texts of errors that the test causes itself."""
    problems = Problems(expected)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        context = await browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
        )
        await context.add_init_script(_WATCH)
        page = await context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        problems.watch(page)
        await page.goto(f"{url}/{path}")
        try:
            yield page
            assert await page.evaluate("window.__violations") == []
            assert await page.evaluate("window.__attacked") == []
            assert problems.found == [], problems.found
        finally:
            await browser.close()


async def take_screenshot(page: Page, name: str) -> None:
    """Keep a picture of the page in `.screenshots`, which git ignores."""
    SCREENSHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"{name}.png")
