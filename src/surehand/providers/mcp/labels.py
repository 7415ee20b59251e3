"""Labels and default namespaces of commands and URLs, with secrets masked.

Addresses use it for their label, identity and namespace, and the stdio transport for lines of stderr.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

SECRET_MASK = "***"
_SECRET_NAME = (
    r"[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|(?:api|access|private)[-_]?key|authorization|credentials?|bearer)"
    r"[\w.-]*"
)
SECRET_NAME = re.compile(_SECRET_NAME, re.IGNORECASE)
"""The name of an option, a variable or a header that holds a secret."""
_SECRET_OPTION = re.compile(rf"--?(?:{_SECRET_NAME}|auth|key|pat)", re.IGNORECASE)
_SECRET_ASSIGNMENT = re.compile(rf"(?P<name>\b{_SECRET_NAME}\s*[=:]\s*)\S.*", re.IGNORECASE | re.DOTALL)
_SECRET_IN_TEXT = re.compile(
    rf"(?P<name>\b{_SECRET_NAME}[\"']?\s*[=:]\s*)(?:(?:basic|bearer|token)\s+)?\S+", re.IGNORECASE
)
TOKEN_VALUE = re.compile(
    r"\b(?:(?:sk|pk|rk)[-_][\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|hf_\w{8,}"
    r"|npm_\w{8,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|Bearer\s+\S+)"
)
"""A value that looks like a token of a well-known service, or a header with one."""
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_QUERY_PARAMETER = re.compile(
    r"(?<=[?&])([\w.-]*(?:token|secret|key|sig|signature|password|auth)[\w.-]*=)[^&#\s]+", re.IGNORECASE
)


def render_command_line(words: Iterable[str]) -> str:
    """A command as typed into a shell, with secrets masked."""
    return shlex.join(mask_secrets(words)).replace(f"'{SECRET_MASK}'", SECRET_MASK)


def mask_secrets(words: Iterable[str]) -> list[str]:
    """The words of a command with secrets masked: `--token X`, `--api-key=X`, `KEY=X`, `ghp_X`."""
    masked: list[str] = []
    is_secret_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        if is_secret_value and not word.startswith("--"):
            masked.append(SECRET_MASK)
        elif equals and _SECRET_OPTION.fullmatch(name):
            masked.append(f"{name}={SECRET_MASK}")
        else:
            masked.append(_mask_word(word))
        is_secret_value = not equals and _SECRET_OPTION.fullmatch(word) is not None
    return masked


def mask_secrets_in_line(line: str) -> str:
    """A line of a program's output with secrets masked, such as `token: X` and `Authorization: Bearer X`."""
    line = _SECRET_IN_TEXT.sub(rf"\g<name>{SECRET_MASK}", line)
    line = TOKEN_VALUE.sub(SECRET_MASK, line)
    return " ".join(mask_secrets(line.split()))


def mask_secrets_in_json(value: Any) -> Any:
    """A JSON value with secrets masked: values named like `api_key`, and what looks like a token."""
    if isinstance(value, dict):
        return {
            key: SECRET_MASK if _holds_secret(key, item) else mask_secrets_in_json(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [mask_secrets_in_json(item) for item in value]
    if not isinstance(value, str):
        return value
    value = _SECRET_IN_TEXT.sub(rf"\g<name>{SECRET_MASK}", value)
    return _SECRET_QUERY_PARAMETER.sub(
        rf"\g<1>{SECRET_MASK}", _URL_CREDENTIALS.sub(SECRET_MASK, TOKEN_VALUE.sub(SECRET_MASK, value))
    )


_PROTOCOL_TOKENS = frozenset({"progressToken"})
"""Names of MCP that hold an id, and not a secret."""


def _holds_secret(name: str, value: Any) -> bool:
    if name in _PROTOCOL_TOKENS or isinstance(value, (dict, list)):
        return False
    return SECRET_NAME.fullmatch(name) is not None


def _mask_word(word: str) -> str:
    for pattern, replacement in (
        (_SECRET_ASSIGNMENT, rf"\g<name>{SECRET_MASK}"),
        (TOKEN_VALUE, SECRET_MASK),
        (_URL_CREDENTIALS, SECRET_MASK),
        (_SECRET_QUERY_PARAMETER, rf"\g<1>{SECRET_MASK}"),
    ):
        word = pattern.sub(replacement, word)
    return word


def url_without_secrets(url: str) -> str:
    """A URL without user, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.rpartition('@')[2].lower()}{parts.path or '/'}"


_PYTHON_COMMAND = re.compile(r"(?:python|pypy)[0-9.]*t?")
_RUNNER_SUBCOMMANDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx", "node", "env", "sudo", "sh", "bash", "java"), frozenset[str]()),
    **dict.fromkeys(("pipx", "npm", "yarn", "pnpm", "deno", "bun"), frozenset({"run", "exec", "dlx", "x"})),
    **dict.fromkeys(("docker", "podman", "nerdctl"), frozenset({"container", "run"})),
    "uv": frozenset({"tool", "run"}),
}
"""Commands that run another program, each with its subcommands that may precede the program."""
_OPTION_WITH_VALUE = re.compile(
    r"-[evpwulmcrXW]|-cp|--(?:env|env-file|volume|mount|publish|name|network|net|workdir|user|entrypoint|platform|label"
    r"|add-host|memory|cpus|gpus|from|with|with-editable|python|package|call|directory|project|index-url"
    r"|extra-index-url|import|require)"
)
_PYTHON_OPTION_WITH_VALUE = re.compile("-[cWX]")
"""Options of Python whose value is the next word."""
_FILE_EXTENSION = re.compile(r"(?<=.)\.(?:py|pyz|[mc]?[jt]s|sh|rb|jar|exe|cmd)$", re.IGNORECASE)


def namespace_from_command(words: Sequence[str]) -> str:
    """The namespace for a command: the name of the program that it runs.

    If the command runs another program (npx, uvx, python, node, docker run and the like), that is the first word which
    is neither an option nor an option's value nor a subcommand, or the module after `-m`. Otherwise it is the command's
    own file name. Folder, scope, version or tag, and extension are removed; other characters than `[A-Za-z0-9_-]`
    become `-`.

        npx -y @modelcontextprotocol/server-github@1.2   server-github
        python -m my_pkg.server                          my_pkg-server
        docker run -i --rm ghcr.io/org/name:tag          name
        /opt/x/bin/tool.py --fast                        tool
    """
    program = _program_name(words[0])
    rest = list(words[1:])
    is_python = _PYTHON_COMMAND.fullmatch(program) is not None
    if is_python and "-m" in rest[:-1]:
        return to_namespace(rest[rest.index("-m") + 1])
    if not is_python and program not in _RUNNER_SUBCOMMANDS:
        return to_namespace(program)
    subcommands = _RUNNER_SUBCOMMANDS.get(program, frozenset())
    index = _find_program_index(rest, subcommands, _PYTHON_OPTION_WITH_VALUE if is_python else _OPTION_WITH_VALUE)
    return to_namespace(program) if index is None else namespace_from_command(rest[index:])


def _find_program_index(
    words: Sequence[str], subcommands: frozenset[str], option_with_value: re.Pattern[str]
) -> int | None:
    """The index of the word that names the program."""
    is_option_value = False
    for index, word in enumerate(words):
        is_assignment = re.fullmatch(r"\w+=.*", word, re.DOTALL) is not None
        if not (is_option_value or word.startswith("-") or word in subcommands or is_assignment):
            return index
        is_option_value = not is_option_value and option_with_value.fullmatch(word) is not None
    return None


def _program_name(word: str) -> str:
    """A word without folder or scope, version, tag or extra, and extension."""
    file_name = re.split(r"[/\\]", word.rstrip("/\\"))[-1]
    without_version = re.split(r"(?<=.)(?:@|:|==|\[)", file_name)[0]
    return _FILE_EXTENSION.sub("", without_version)


def namespace_from_url(url: str) -> str:
    """The namespace for a URL: its host without port and `www.`, for example `example-com`."""
    return to_namespace((urlsplit(url).hostname or "").removeprefix("www."))


def to_namespace(name: str) -> str:
    """The nearest legal namespace. It has no `__`, which separates a namespace from a tool's name."""
    legal = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
    return re.sub(r"_{2,}", "_", legal).strip("-_") or "server"
