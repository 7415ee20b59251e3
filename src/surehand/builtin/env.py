"""The factory `env`: tools that read and set environment variables which the developer allowed, and never secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

from surehand.builtin.limited_field import limited_field
from surehand.core.define import tool
from surehand.core.errors import DefinitionError, Denied, InvalidArguments
from surehand.core.tool import Tool

# Removed from a name before it is searched for words of secrets: KEYBOARD holds KEY, and is none.
_HARMLESS_WORDS = re.compile(
    r"AUTHOR(?!I)|KEYBOARD|KEYMAP|KEYWORD|TOKENIZER|MAX_TOKENS|COMPASS|PASSENGER|MONKEY|TURKEY"
)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|(?<=.)PWD|CRED|AUTH|PRIVATE|COOKIE|SESSION|DSN|JWT|BEARER|HMAC|SALT|(?<![A-Z])(?:OTP|PIN|PEM)(?![A-Z])"
    r"|SIGN(?:ING|ATURE)|WEBHOOK|CONN(?:ECTION)?_?STR|(?:DATABASE|DB|REDIS|MONGO\w*|AMQP|BROKER|POSTGRES\w*|MYSQL)_UR[IL]"
    r"|ENCRYPT"
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:sk|rk|pk)[-_](?:live|test|ant|proj|or|svcacct)?[-_]?[A-Za-z0-9_-]{16,}"  # model providers, Stripe
    r"|\b(?:gh[oprsu]_|github_pat_|glpat-|npm_|pypi-|hf_|dop_v1_|xox[a-z]-|shpat_|SG\.|key-|AGE-SECRET-KEY-)[\w.-]{10,}"
    r"|\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"
    r"|\bAIza[\w-]{30,}|\bya29\.[\w-]+"
    r"|\beyJ[\w-]{8,500}\.[\w-]{8,}\."  # a JWT; bounded, because dashes would make the match quadratic
    r"|(?i:\b(?:bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,})"
    r"|://[^/\s:@]*:[^/\s@]+@|://[^/\s@]{16,500}@"  # a URL with a password, or with a token as user name
    # A random word: upper-case and lower-case letters and digits, at least 32 characters.
    r"|(?<![\w+/=.:-])(?=[A-Z0-9+/=_-]*[a-z])(?=[a-z0-9+/=_-]*[A-Z])(?=[A-Za-z+/=_-]*[0-9])[A-Za-z0-9+=_-][A-Za-z0-9+/=_-]{31,}"
    r"|(?i:(?:password|passwd|pwd|secret|token|api_?key|accountkey|sharedaccesskey|signature)\s*[=:]\s*[^\s;&]{3,})"
)
DANGEROUS_NAME_GLOBS = (
    "PATH", "LD_*", "DYLD_*", "PYTHON*", "NODE_*", "NPM_*", "PIP_*", "UV_*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*",
    "JAVA*", "_JAVA_*", "JDK_*", "CLASSPATH", "GOPATH", "GOROOT", "GOPROXY", "GOENV", "RUST*", "CARGO*", "LUA_*",
    "PHP*", "R_*", "IFS", "ENV", "BASH*", "SHELL*", "ZDOTDIR", "PS[0-9]", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE",
    "FPATH", "HOME", "USER", "LOGNAME", "PWD", "TMP", "TEMP", "TMPDIR", "XDG_*", "EDITOR", "VISUAL", "*PAGER",
    "BROWSER", "LESS*", "GIT_*", "SSH_*", "SUDO_*", "GPG*", "*_PROXY", "SSL_*", "*_CA_BUNDLE", "*_CA_CERTS",
    "OPENSSL_*", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "LOCPATH", "NLSPATH", "GCONV_PATH", "GETCONF_DIR",
    "MALLOC_*", "GLIBC_*", "TZ", "TZDIR", "TERMINFO*", "CC", "CXX", "LD", "MAKE*", "*FLAGS", "*_PRELOAD", "DOCKER_*",
    "KUBECONFIG", "AWS_*", "AGENT_WORKSPACE_ROOT", "AGENT_FILESYSTEM_*", "SUREHAND_*",
)  # fmt: skip
"""Globs over upper-case names of variables that decide what a program loads, runs, trusts or connects to."""
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_VARIABLE_GLOB = re.compile(r"[A-Za-z0-9_*?\[\]!-]+\Z")
_MAX_VALUE_LENGTH = 30_000


def env(allow: str | Iterable[str], *, environment: MutableMapping[str, str] | None = None) -> list[Tool[..., Any]]:
    """Tools that read and set environment variables of this process.

    Args:
        allow: names, or globs such as `APP_*`. Names and values that look like secrets are always refused.
        environment: the mapping to read and set; the environment of this process by default.
    """
    allowed = AllowedVariables.parse(allow)
    variables = os.environ if environment is None else environment

    def check_get(args: Mapping[str, Any]) -> None:
        allowed.check_read(args["key"])

    def check_set(args: Mapping[str, Any]) -> None:
        allowed.check_write(args["key"])
        _check_new_value(args["key"], args["value"])

    @tool(category="system", effects={"read"}, visible=False, toolsets="all_task_tools", preview=check_get)
    async def get_env(
        key: Annotated[str, limited_field(description="Name of an allowed variable.", max_length=200)],
    ) -> dict[str, str | None]:
        """Read an environment variable that the developer allowed. Never secrets."""
        allowed.check_read(key)
        return {"key": key, "value": _readable_value(key, variables.get(key))}

    @tool(
        category="system",
        effects={"write"},
        repeatable=True,
        visible=False,
        toolsets="all_task_tools",
        preview=check_set,
    )
    async def set_env(
        key: Annotated[str, limited_field(description="Name of an allowed variable.", max_length=200)],
        value: Annotated[str, limited_field(description="Its new value.", max_length=_MAX_VALUE_LENGTH)],
    ) -> dict[str, str | None]:
        """Set an allowed environment variable for this process and those it starts later."""
        allowed.check_write(key)
        _check_new_value(key, value)
        previous = _readable_value(key, variables.get(key))
        variables[key] = value
        return {"key": key, "previous": previous, "current": value}

    return [get_env, set_env]


@dataclass(frozen=True, slots=True)
class AllowedVariables:
    """The names of variables that may be read and set."""

    names: frozenset[str]
    globs: tuple[str, ...]

    @classmethod
    def parse(cls, names_and_globs: str | Iterable[str]) -> AllowedVariables:
        """Parse names and globs; raises `DefinitionError` for a malformed name or one that looks like a secret."""
        given = [names_and_globs] if isinstance(names_and_globs, str) else list(names_and_globs)
        for name in given:
            _validate_allowed_name(name)
        names = frozenset(name for name in given if _VARIABLE_NAME.match(name))
        return cls(names, tuple(name for name in given if name not in names))

    def check_read(self, name: str) -> None:
        """Refuse a variable that is not allowed, in the same words whether or not it exists."""
        is_allowed = name in self.names or any(fnmatchcase(name, glob) for glob in self.globs)
        if not is_allowed or not _VARIABLE_NAME.match(name) or is_secret_name(name):
            offered = ", ".join(sorted((*self.names, *self.globs))[:20]) or "none"
            raise Denied(f"Permission denied: {name[:80]!r} is not among the variables allowed here: {offered}.")

    def check_write(self, name: str) -> None:
        """Refuse also a variable that changes how programs run, unless it is allowed by its exact name."""
        self.check_read(name)
        if name not in self.names and is_dangerous_name(name):
            raise Denied(f"Permission denied: {name} changes how programs run, and may only be read here.")


def _validate_allowed_name(name: object) -> None:
    if not isinstance(name, str) or not _VARIABLE_GLOB.match(name):
        raise DefinitionError(
            f"{name!r} is not the name of a variable.", fix="use names such as 'APP_MODE' or globs such as 'APP_*'."
        )
    if _VARIABLE_NAME.match(name) and is_secret_name(name):
        raise DefinitionError(
            f"{name} looks like a secret, which a model must not see.",
            fix="remove it; pass secrets in code to the tool that needs them.",
        )


def _check_new_value(name: str, value: str) -> None:
    if "\0" in value:
        raise InvalidArguments(f"The value for {name} holds a NUL character, which no variable can. Leave it out.")
    if is_secret_value(value):
        raise Denied(f"Permission denied: the value for {name} looks like a secret, and is not put where others read.")


def _readable_value(name: str, value: str | None) -> str | None:
    if value is None:
        return None
    if is_secret_value(value):
        raise Denied(f"Permission denied: the value of {name} looks like a secret, and is not shown.")
    # A variable may hold bytes that are not UTF-8; Python decodes them to lone surrogates, which JSON cannot carry.
    return os.fsencode(value).decode(errors="replace")


def is_secret_name(name: str) -> bool:
    """Whether a variable with this name probably holds a secret."""
    return bool(_SECRET_NAME.search(_HARMLESS_WORDS.sub("", name.upper())))


def is_secret_value(value: str) -> bool:
    """Whether a value has the form of a key, a signed token, or a URL with a password."""
    return bool(_SECRET_VALUE.search(value))


def is_dangerous_name(name: str) -> bool:
    """Whether a variable with this name changes how programs run."""
    return any(fnmatchcase(name.upper(), glob) for glob in DANGEROUS_NAME_GLOBS)
