"""Secrecy: names and values in an environment that look like secrets, and names that change how programs run."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

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
    r"|\beyJ[\w-]{8,500}\.[\w-]{8,}\."  # a signed token; bounded, or dashes would make it quadratic
    r"|(?i:\b(?:bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,})"
    r"|://[^/\s:@]*:[^/\s@]+@|://[^/\s@]{16,500}@"  # a URL with a password, or with a token for a name
    # Letters at random: upper, lower and digits in one word.
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
"""Globs over names that decide what a program loads, runs, trusts or where it connects; case is no difference."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of that name most likely holds a secret."""
    return bool(_SECRET_NAME.search(_HARMLESS_WORDS.sub("", name.upper())))


def is_secret_value(value: str) -> bool:
    """Whether a value has the form of a key, a signed token, or a URL with a password in it."""
    return bool(_SECRET_VALUE.search(value))


def is_dangerous_name(name: str) -> bool:
    """Whether a variable of that name changes how programs run."""
    return any(fnmatchcase(name.upper(), glob) for glob in DANGEROUS_NAME_GLOBS)
