"""Label: what a command or a URL is called, in front of people and in names, without its secrets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

SECRET_MASK = "***"
_SECRET_NAME = (
    r"[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|(?:api|access|private)[-_]?key|authorization|credentials?|bearer)"
    r"[\w.-]*"
)
_SECRET_OPTION = re.compile(rf"--?(?:{_SECRET_NAME}|auth|key|pat)", re.IGNORECASE)
_SECRET_ASSIGNMENT = re.compile(rf"(?P<name>\b{_SECRET_NAME}\s*[=:]\s*)\S.*", re.IGNORECASE | re.DOTALL)
_SECRET_IN_TEXT = re.compile(
    rf"(?P<name>\b{_SECRET_NAME}[\"']?\s*[=:]\s*)(?:(?:basic|bearer|token)\s+)?\S+", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"\b(?:(?:sk|pk|rk)[-_][\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|xox[a-z]-[\w-]{8,}|hf_\w{8,}"
    r"|npm_\w{8,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|Bearer\s+\S+)"
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_QUERY_PARAMETER = re.compile(
    r"(?<=[?&])([\w.-]*(?:token|secret|key|sig|signature|password|auth)[\w.-]*=)[^&#\s]+", re.IGNORECASE
)


def render_command_line(words: Iterable[str]) -> str:
    """A command as one would type it, what looks like a secret masked."""
    return shlex.join(mask_secrets(words)).replace(f"'{SECRET_MASK}'", SECRET_MASK)


def mask_secrets(words: Iterable[str]) -> list[str]:
    """The words of a command, those that look like secrets masked: `--token X`, `--api-key=X`, `KEY=X`, `ghp_X`."""
    shown, hide = list[str](), False
    for word in words:
        name, given, _ = word.partition("=")
        if hide and not word.startswith("--"):
            shown.append(SECRET_MASK)
        elif given and _SECRET_OPTION.fullmatch(name):
            shown.append(f"{name}={SECRET_MASK}")
        else:
            shown.append(_mask_word(word))
        hide = not given and _SECRET_OPTION.fullmatch(word) is not None
    return shown


def mask_secrets_in_line(line: str) -> str:
    """A line that a program wrote, which may name the key that does not fit: `token: X`, `Authorization: Bearer X`."""
    return " ".join(
        mask_secrets(_SECRET_VALUE.sub(SECRET_MASK, _SECRET_IN_TEXT.sub(rf"\g<name>{SECRET_MASK}", line)).split())
    )


def _mask_word(word: str) -> str:
    for pattern, by in (
        (_SECRET_ASSIGNMENT, rf"\g<name>{SECRET_MASK}"),
        (_SECRET_VALUE, SECRET_MASK),
        (_URL_CREDENTIALS, SECRET_MASK),
        (_SECRET_QUERY_PARAMETER, rf"\g<1>{SECRET_MASK}"),
    ):
        word = pattern.sub(by, word)
    return word


def url_without_secrets(url: str) -> str:
    """A URL without what may be a secret: no user, no query, no fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.rpartition('@')[2].lower()}{parts.path or '/'}"


_PYTHON_COMMAND = re.compile(r"(?:python|pypy)[0-9.]*t?")
_RUNNER_SUBCOMMANDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx", "node", "env", "sudo", "sh", "bash", "java"), frozenset[str]()),
    **dict.fromkeys(("pipx", "npm", "yarn", "pnpm", "deno", "bun"), frozenset({"run", "exec", "dlx", "x"})),
    **dict.fromkeys(("docker", "podman", "nerdctl"), frozenset({"container", "run"})),
    "uv": frozenset({"tool", "run"}),
}
"""Commands that run others, and the words of their own that may come first."""
_OPTION_WITH_VALUE = re.compile(
    r"-[evpwulmcrXW]|-cp|--(?:env|env-file|volume|mount|publish|name|network|net|workdir|user|entrypoint|platform|label"
    r"|add-host|memory|cpus|gpus|from|with|with-editable|python|package|call|directory|project|index-url"
    r"|extra-index-url|import|require)"
)
_PYTHON_OPTION_WITH_VALUE = re.compile("-[cWX]")
"""Options of theirs whose value is the next word."""
_FILE_EXTENSION = re.compile(r"(?<=.)\.(?:py|pyz|[mc]?[jt]s|sh|rb|jar|exe|cmd)$", re.IGNORECASE)


def namespace_from_command(words: Sequence[str]) -> str:
    """The name of what a command runs.

    That is the command's own file name, or, where it runs another (npx, uvx, python, node, docker run and their like),
    the first word after it that is neither an option nor an option's value nor a subcommand, or the module after `-m`.
    Folder, scope, version or tag, and extension are left out, and `-` stands for all but `[A-Za-z0-9_-]`.

        npx -y @modelcontextprotocol/server-github@1.2   server-github
        python -m my_pkg.server                          my_pkg-server
        docker run -i --rm ghcr.io/org/name:tag          name
        /opt/x/bin/tool.py --fast                        tool
    """
    own, rest = _program_name(words[0]), list(words[1:])
    python = _PYTHON_COMMAND.fullmatch(own) is not None
    if python and "-m" in rest[:-1]:
        return to_namespace(rest[rest.index("-m") + 1])
    if not python and own not in _RUNNER_SUBCOMMANDS:
        return to_namespace(own)
    at = _find_program_index(
        rest, _RUNNER_SUBCOMMANDS.get(own, frozenset()), _PYTHON_OPTION_WITH_VALUE if python else _OPTION_WITH_VALUE
    )
    return namespace_from_command(rest[at:]) if at is not None else to_namespace(own)


def _find_program_index(
    words: Sequence[str], subcommands: frozenset[str], option_with_value: re.Pattern[str]
) -> int | None:
    """Where the first word is that says what is run."""
    value = False
    for at, word in enumerate(words):
        if value or word.startswith("-") or word in subcommands or re.fullmatch(r"\w+=.*", word, re.DOTALL):
            value = not value and option_with_value.fullmatch(word) is not None
        else:
            return at
    return None


def _program_name(word: str) -> str:
    """Without folder or scope, version or tag or extra, and extension."""
    last = re.split(r"[/\\]", word.rstrip("/\\"))[-1]
    return _FILE_EXTENSION.sub("", re.split(r"(?<=.)(?:@|:|==|\[)", last)[0])


def namespace_from_url(url: str) -> str:
    """The host's name, without port and `www.`; `-` stands for all but `[A-Za-z0-9_-]`: example-com."""
    return to_namespace((urlsplit(url).hostname or "").removeprefix("www."))


def to_namespace(name: str) -> str:
    """The nearest namespace. Two underscores would part it from a tool's name, so there is never more than one."""
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", name)).strip("-_") or "server"
