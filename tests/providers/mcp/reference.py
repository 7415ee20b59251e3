"""The reference servers of the protocol: how each is started, its tools, and one call with its result."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from surehand import mcp
from tests import node

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Reference:
    """One server."""

    command: tuple[str, ...]
    tools: str
    """Their names, some that come later left out."""
    call: str
    arguments: dict[str, Any]
    says: str
    env: dict[str, str] = field(default_factory=dict)

    def provider(self) -> mcp.Server:
        return mcp.stdio(*self.command, namespace="real", manifest=False, env=self.env)


def _everything(folder: Path, url: str) -> Reference:
    tools = "echo get-annotated-message get-env get-resource-links get-structured-content get-sum get-tiny-image"
    command = (*node.server("everything"), "stdio")
    return Reference(command, tools, "echo", {"message": "hello"}, "Echo: hello")


def _filesystem(folder: Path, url: str) -> Reference:
    tools = (
        "create_directory directory_tree edit_file get_file_info list_allowed_directories list_directory move_file "
        "list_directory_with_sizes read_file read_media_file read_multiple_files read_text_file search_files write_file"
    )
    call = ("read_text_file", {"path": str(folder / "page.html")}, "from a page")
    return Reference((*node.server("filesystem"), str(folder)), tools, *call)


def _memory(folder: Path, url: str) -> Reference:
    tools = (
        "add_observations create_entities create_relations delete_entities delete_observations delete_relations "
        "open_nodes read_graph search_nodes"
    )
    env = {"MEMORY_FILE_PATH": str(folder / "graph.jsonl")}
    (folder / "graph.jsonl").write_text('{"type":"entity","name":"Ada","entityType":"person","observations":[]}\n')
    return Reference(node.server("memory"), tools, "search_nodes", {"query": "Ada"}, "person", env)


def _time(folder: Path, url: str) -> Reference:
    command = (str(BIN / "mcp-server-time"), "--local-timezone", "UTC")
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return Reference(command, "get_current_time convert_time", "convert_time", noon, "21:00")


def _git(folder: Path, url: str) -> Reference:
    tools = (
        "git_add git_branch git_checkout git_commit git_create_branch git_diff git_diff_staged git_diff_unstaged "
        "git_log git_reset git_show git_status"
    )
    author = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "The first commit"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    command = (str(BIN / "mcp-server-git"), "--repository", str(folder))
    return Reference(command, tools, "git_log", {"repo_path": str(folder)}, "The first commit")


def _fetch(folder: Path, url: str) -> Reference:
    command = (str(BIN / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips")
    alone = {"PATH": str(folder)}  # where it finds npm, it installs packages while it is asked
    return Reference(command, "fetch", "fetch", {"url": f"{url}/page.html"}, "from a page", alone)


IN_NODE: dict[str, Callable[[Path, str], Reference]] = {
    "everything": _everything, "filesystem": _filesystem, "memory": _memory,
}  # fmt: skip
IN_PYTHON: dict[str, Callable[[Path, str], Reference]] = {"time": _time, "git": _git, "fetch": _fetch}


class Web(ThreadingHTTPServer):
    """Files of a folder, and `/slow`, which does not answer before all is over."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.asked, self._over = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), partial(Page, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def hang(self) -> None:
        self.asked.set()
        self._over.wait(60)


class Page(SimpleHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.hang()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None: ...
