"""A REST service for orders of books: `python order_service.py orders.json` serves it on a free port.

It writes its OpenAPI document, which holds its address, and ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

BOOKS = [
    {"title": "The Book of Tea", "author": "Okakura Kakuzo", "price": 9.5, "in_stock": 12},
    {"title": "For All the Tea in China", "author": "Sarah Rose", "price": 14.0, "in_stock": 3},
    {"title": "Tea with Jane Austen", "author": "Kim Wilson", "price": 12.0, "in_stock": 0},
]
ORDER_SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "The title of the book."},
        "copies": {"type": "integer", "minimum": 1, "maximum": 20},
        "gift_wrap": {"type": "boolean", "description": "Wrap it as a present."},
    },
    "required": ["title", "copies"],
}


def openapi_document(url: str) -> dict[str, Any]:
    """The document of the service at its address."""
    ok = {"200": {"description": "Done."}}
    body = {"required": True, "content": {"application/json": {"schema": ORDER_SCHEMA}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Orders", "version": "1.0"},
        "servers": [{"url": url}],
        "paths": {
            "/books": {"get": {"operationId": "list_books", "summary": "List the books in the shop.", "responses": ok}},
            "/orders": {
                "get": {"operationId": "list_orders", "summary": "List the orders so far.", "responses": ok},
                "post": {
                    "operationId": "place_order",
                    "summary": "Order copies of a book.",
                    "requestBody": body,
                    "responses": ok,
                },
            },
        },
    }


class OrderService(BaseHTTPRequestHandler):
    """Lists books, and takes orders."""

    orders: list[dict[str, Any]] = []  # noqa: RUF012 - one list for all requests

    def do_GET(self) -> None:
        """List books or orders."""
        lists = {"/books": BOOKS, "/orders": self.orders}
        found = self.path in lists
        self.send_json(lists[self.path] if found else {"error": "There is no such page."}, 200 if found else 404)

    def do_POST(self) -> None:
        """Take an order."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        book = next((each for each in BOOKS if each["title"] == order["title"]), None)
        if book is None:
            self.send_json({"error": f"There is no book {order['title']!r}."}, 422)
            return
        self.orders.append({"number": len(self.orders) + 1, **order, "total": book["price"] * order["copies"]})
        self.send_json(self.orders[-1])

    def send_json(self, value: object, status: int = 200) -> None:
        """Send a JSON answer."""
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main(document: Path) -> None:
    """Serve until the standard input ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), OrderService) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        text = json.dumps(openapi_document(f"http://127.0.0.1:{server.server_port}"), indent=2)
        # Renamed when it is complete: whoever waits for the file reads all of it.
        part = document.with_suffix(".part")
        part.write_text(text)
        part.rename(document)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
