"""The HTTP client is the only one in the package."""

import re
from pathlib import Path

import surehand

SOURCE = Path(surehand.__file__).parent
SDK_CLIENT = SOURCE / "agent" / "models" / "http_client.py"
"""Through a proxy of the environment, which resolves hosts itself, the SDKs of models get a plain `httpx2` client."""
FILES = sorted(
    path for path in SOURCE.rglob("*.py") if "http" not in path.relative_to(SOURCE).parts[:1] and path != SDK_CLIENT
)
OTHERS = re.compile(
    r"urllib\.request|urllib import request|\burlopen\b|(?<!surehand\.)http\.client|from http import client"
    r"|^\s*(?:import|from)\s+(?:requests|urllib3|aiohttp|pycurl|httpx|httplib2|httpcore2?)\b"
    r"|httpx2?\.(?:get|post|request|stream|Client|AsyncClient|HTTPTransport|AsyncHTTPTransport)\("
    r"|asyncio\.open_connection|socket\.create_connection",
    re.MULTILINE,
)


def test_the_package_has_modules_to_check():
    assert len(FILES) > 100
    assert OTHERS.search("import urllib.request")
    assert OTHERS.search("    from requests import get")
    assert OTHERS.search("client = httpx2.AsyncClient()")


def test_no_module_uses_another_http_client():
    found = {path.name: match[0] for path in FILES if (match := OTHERS.search(path.read_text()))}

    assert found == {}
