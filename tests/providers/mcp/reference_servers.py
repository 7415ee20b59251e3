"""The MCP reference servers: how to start each one, its tools, and one call with its expected result."""

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
from tests import node_packages

BIN_FOLDER = Path(sys.executable).parent


@dataclass(frozen=True)
class ReferenceServer:
    """One reference server, with a call to test it."""

    command: tuple[str, ...]
    tools: str
    """Names of its tools, separated by spaces, without those that newer versions add."""
    call: str
    arguments: dict[str, Any]
    says: str
    env: dict[str, str] = field(default_factory=dict)

    def provider(self) -> mcp.Server:
        return mcp.stdio(*self.command, namespace="real", manifest=False, env=self.env)


def _everything(folder: Path, url: str) -> ReferenceServer:
    tools = "echo get-annotated-message get-env get-resource-links get-structured-content get-sum get-tiny-image"
    command = (*node_packages.server_command("everything"), "stdio")
    return ReferenceServer(command, tools, "echo", {"message": "hello"}, "Echo: hello")


def _filesystem(folder: Path, url: str) -> ReferenceServer:
    tools = (
        "create_directory directory_tree edit_file get_file_info list_allowed_directories list_directory move_file "
        "list_directory_with_sizes read_file read_media_file read_multiple_files read_text_file search_files write_file"
    )
    call = ("read_text_file", {"path": str(folder / "page.html")}, "from a page")
    return ReferenceServer((*node_packages.server_command("filesystem"), str(folder)), tools, *call)


def _memory(folder: Path, url: str) -> ReferenceServer:
    tools = (
        "add_observations create_entities create_relations delete_entities delete_observations delete_relations "
        "open_nodes read_graph search_nodes"
    )
    env = {"MEMORY_FILE_PATH": str(folder / "graph.jsonl")}
    (folder / "graph.jsonl").write_text('{"type":"entity","name":"Ada","entityType":"person","observations":[]}\n')
    return ReferenceServer(
        node_packages.server_command("memory"), tools, "search_nodes", {"query": "Ada"}, "person", env
    )


def _time(folder: Path, url: str) -> ReferenceServer:
    command = (str(BIN_FOLDER / "mcp-server-time"), "--local-timezone", "UTC")
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return ReferenceServer(command, "get_current_time convert_time", "convert_time", noon, "21:00")


def _git(folder: Path, url: str) -> ReferenceServer:
    tools = (
        "git_add git_branch git_checkout git_commit git_create_branch git_diff git_diff_staged git_diff_unstaged "
        "git_log git_reset git_show git_status"
    )
    author = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "The first commit"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    command = (str(BIN_FOLDER / "mcp-server-git"), "--repository", str(folder))
    return ReferenceServer(command, tools, "git_log", {"repo_path": str(folder)}, "The first commit")


def _fetch(folder: Path, url: str) -> ReferenceServer:
    command = (str(BIN_FOLDER / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips")
    env = {"PATH": str(folder)}  # without npm on the PATH: otherwise it installs packages during a call
    return ReferenceServer(command, "fetch", "fetch", {"url": f"{url}/page.html"}, "from a page", env)


NODE_SERVERS: dict[str, Callable[[Path, str], ReferenceServer]] = {
    "everything": _everything, "filesystem": _filesystem, "memory": _memory,
}  # fmt: skip
PYTHON_SERVERS: dict[str, Callable[[Path, str], ReferenceServer]] = {"time": _time, "git": _git, "fetch": _fetch}


class FileServer(ThreadingHTTPServer):
    """Serves the files of a folder, and `/slow`, which answers only at the end of the test."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.asked, self._closing = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), partial(_RequestHandler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def hang(self) -> None:
        self.asked.set()
        self._closing.wait(60)


class _RequestHandler(SimpleHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.hang()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None: ...
