"""Sensitive: names that look like keys or credentials. A person is asked before a tool touches one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

SENSITIVE_NAME_GLOBS = (
    ".env*", "*.env", "*credential*", "*secret*", "*password*", ".netrc", "_netrc", ".pgpass",
    ".my.cnf", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db", "*.ppk", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", ".password-store",
)  # fmt: skip
"""Globs over the names on a path, its folders included; upper and lower case are the same."""


def build_name_matcher(globs: Iterable[str]) -> Callable[[Iterable[str]], bool]:
    """Whether any of the names on a path fits one of the globs."""
    found = re.compile("|".join(translate(glob.casefold()) for glob in globs) or r"(?!)")
    return lambda parts: any(found.match(part.casefold()) for part in parts)
