"""Signatures of messages between the gateway and other programs, as https://www.standardwebhooks.com describes them.

The gateway signs what it sends and verifies what it gets; a program at the other end may use the same functions.
"""

from __future__ import annotations

import hmac
import secrets as random
import time
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Collection, Mapping

from surehand.core.errors import DefinitionError

SECRET_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
CLOCK_WINDOW_SECONDS = 300.0
"""How far the time of a message may be from the time of who verifies it."""
MAX_MESSAGE_ID_LENGTH = 200
MAX_SIGNATURES = 10
_VERSION = "v1"


class InvalidSignature(ValueError):
    """A message is not signed with a known secret, or is too old. It says which, and no more."""


def new_webhook_secret() -> str:
    """A new secret with 256 random bits."""
    return SECRET_PREFIX + b64encode(random.token_bytes(32)).decode()


def parse_secret(secret: str) -> bytes:
    """The key of a secret; the error does not show it."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (Base64Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or len(key) not in SECRET_BYTES:
        problem = f"The secret of a webhook is {SECRET_PREFIX!r} and 24 to 64 bytes in Base64; this one is not."
        raise DefinitionError(problem, fix="make one with gateway.new_webhook_secret().")
    return key


def sign_webhook(
    body: bytes, secrets: Collection[str], *, message_id: str | None = None, timestamp: float | None = None
) -> dict[str, str]:
    """The headers of a signed message: the signature with every secret, so that either side can change its own first.

    Args:
        message_id: the same for every attempt to send the same message; by default a new one.
        timestamp: seconds since the epoch; now by default.
    """
    message_id = f"msg_{random.token_hex(16)}" if message_id is None else message_id
    sent_at = str(int(time.time() if timestamp is None else timestamp))
    signatures = [_sign(parse_secret(secret), message_id, sent_at, body) for secret in secrets]
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": sent_at,
        "webhook-signature": " ".join(f"{_VERSION},{signature}" for signature in signatures),
    }


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secrets: Collection[str], *, now: float | None = None
) -> str:
    """The id of a message that is signed with one of the secrets; raises `InvalidSignature` for any other.

    The caller has to refuse an id that it has had before: within the window, a message can be sent again by others.

    Args:
        headers: with names in lower case, or of a type that does not distinguish cases.
        now: seconds since the epoch; the time of this machine by default.
    """
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    if not message_id or len(message_id) > MAX_MESSAGE_ID_LENGTH or not message_id.isascii():
        raise InvalidSignature("The header webhook-id is missing, or is not an id.")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        raise InvalidSignature("The header webhook-timestamp is missing, or is not a number of seconds.")
    if not _has_valid_signature(body, headers.get("webhook-signature", ""), message_id, timestamp, secrets):
        raise InvalidSignature("The signature is not valid.")
    # After the signature: the difference to this machine's clock is told only to who knows a secret.
    if abs((time.time() if now is None else now) - int(timestamp)) > CLOCK_WINDOW_SECONDS:
        raise InvalidSignature(f"The message is more than {CLOCK_WINDOW_SECONDS:g} seconds old, or from the future.")
    return message_id


def _has_valid_signature(
    body: bytes, presented: str, message_id: str, timestamp: str, secrets: Collection[str]
) -> bool:
    signatures = [each.partition(",")[2] for each in presented.split(" ") if each.startswith(f"{_VERSION},")]
    expected = [_sign(parse_secret(secret), message_id, timestamp, body) for secret in secrets]
    is_valid = False
    # All of them, whichever matches: how long it takes tells nothing.
    for signature in signatures[:MAX_SIGNATURES]:
        for each in expected:
            is_valid |= hmac.compare_digest(each.encode(), signature.encode())
    return is_valid


def _sign(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return b64encode(hmac.digest(key, signed, "sha256")).decode()
