"""A REST API as tools: `python examples/rest_api.py` starts a small service of its own, and calls it.

Shown are templates, a token that stays secret, pages that are put together, and the request that a person approves.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from surehand import Pending, Policy, Runtime, rest

BOOKS = [{"id": number, "title": f"Volume {number}"} for number in range(1, 8)]
PAGE_SIZE = 3


class Library(BaseHTTPRequestHandler):
    """Lists books page by page, and takes loans."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        start = int(query.get("cursor", ["0"])[0])
        end = start + PAGE_SIZE
        self.send_json({"books": BOOKS[start:end], "next": end if end < len(BOOKS) else None})

    def do_POST(self) -> None:
        if self.headers["Authorization"] != f"Bearer {os.environ['LIBRARY_TOKEN']}":
            self.send_json({"error": {"message": "This token is not known."}}, 401)
            return
        loan = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_json({"path": self.path, "loan": loan, "seen": self.headers["Authorization"]})

    def send_json(self, value: object, status: int = 200) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def library() -> Iterator[str]:
    """Run the service; gives its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Library) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def main(url: str) -> None:
    books = rest(
        "GET",
        f"{url}/books",
        name="books",
        description="List the books of the library.",
        paginate={"cursor": "next", "parameter": "cursor", "items": "books"},
    )
    borrow = rest(
        "POST",
        f"{url}/books/{{id}}/loans",
        name="borrow",
        description="Borrow a book for some days.",
        parameters={
            "type": "object",
            "properties": {"id": {"type": "integer"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["id", "days"],
        },
        auth="${env.LIBRARY_TOKEN}",
    )
    async with Runtime(books, borrow, policy=Policy.default()) as runtime:
        listed = await runtime.call("books")
        print("books:", ", ".join(book["title"] for book in listed.data))

        waits = await runtime.call("borrow", {"id": 3, "days": 14}, call_id="loan-1")
        assert isinstance(waits, Pending)
        print("to approve:", waits.request["preview"].replace(url, "http://library"), sep="\n")

        done = await runtime.approve("loan-1")
        print("answer:", done.text)


if __name__ == "__main__":
    os.environ.setdefault("LIBRARY_TOKEN", "t0ken-of-the-library")
    with library() as address:
        asyncio.run(main(address))
