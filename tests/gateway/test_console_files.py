"""The files of the console, without a browser: who gets them, how they are cached, and what is in them."""

import hashlib
import re
from pathlib import Path

from surehand import gateway
from surehand.gateway.console import static_files
from tests.gateway.api.served_gateway import build_runtime, serve


async def test_the_files_are_public_and_cached_by_their_content():
    tokens = gateway.bearer_tokens(gateway.operator_token("t"))
    async with serve(build_runtime(), auth=tokens) as served:
        page = await served.client.get("/")
        script = await served.client.get("/console/app.js")
        again = await served.client.get("/console/app.js", headers={"if-none-match": script.headers["etag"]})
        missing = await served.client.get("/console/../static_files.py")
        outside = await served.client.get("/console/%2e%2e/static_files.py")
        api = await served.client.get("/api/tools")

    assert (page.status_code, script.status_code, again.status_code) == (200, 200, 304)
    assert (missing.status_code, outside.status_code, api.status_code) == (401, 404, 401)
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "no-cache"


async def test_a_gateway_without_the_console_has_no_page():
    async with serve(build_runtime(), console=False) as served:
        responses = [await served.client.get(path) for path in ("/", "/console/app.js")]

    assert [each.status_code for each in responses] == [404, 404]


def test_the_libraries_are_those_of_the_list():
    vendor = static_files.STATIC_FOLDER / "vendor"
    lines = (vendor / "VENDOR.txt").read_text().splitlines()[1:]
    listed = {line.split()[0]: line.split()[-1] for line in lines}
    present = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.glob("*.js")}

    assert present == listed


def test_no_script_parses_html_or_runs_text():
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function"
    )
    own = [path for path in static_files.STATIC_FOLDER.rglob("*.js") if "vendor" not in path.parts]

    assert own
    assert [path for path in own if forbidden.search(Path(path).read_text())] == []
