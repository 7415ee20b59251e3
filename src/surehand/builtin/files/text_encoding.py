"""TextEncoding: the codec of a text file and its byte order mark, detected from the file's first bytes or by name."""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass

from surehand.core.errors import InvalidArguments

HEAD_BYTES = 8192
"""Bytes at the start of a file that detection looks at; a NUL among them means a binary file."""
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNUSED_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_FILE_CODEC_PREFIXES = (
    "utf-8",
    "utf-16",
    "utf-32",
    "ascii",
    "latin-1",
    "cp",
    "iso8859",
    "koi8",
    "mac-",
    "gb",
    "big5",
    "euc",
    "shift",
)
_MAX_NAME_LENGTH = 40
_CODEC_ALIASES = {"binary": "latin-1", "ucs2": "utf-16-le", "ucs-2": "utf-16-le", "utf16le": "utf-16-le"}


@dataclass(frozen=True, slots=True)
class TextEncoding:
    """A codec, and the byte order mark at the start of the file."""

    codec: str
    byte_order_mark: bytes = b""

    @property
    def name(self) -> str:
        """The encoding's usual name."""
        return f"{self.codec}-sig" if self.byte_order_mark and self.codec == "utf-8" else self.codec

    @property
    def is_wide(self) -> bool:
        """Whether a newline takes more than one byte."""
        return self.codec.startswith(("utf-16", "utf-32"))

    def decode(self, data: bytes) -> str:
        """Decode so that `encode` gives the same bytes again; raises `UnicodeDecodeError`."""
        return data[len(self.byte_order_mark) :].decode(self.codec, "strict" if self.is_wide else "surrogateescape")

    def encode(self, text: str) -> bytes:
        """Encode without the byte order mark; raises `UnicodeEncodeError`."""
        return text.encode(self.codec, "strict" if self.is_wide else "surrogateescape")


def detect_encoding(head: bytes) -> TextEncoding | None:
    """The encoding of a file with these first bytes; None for a binary file."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return TextEncoding(codec, mark)
    if b"\0" in head[:HEAD_BYTES]:
        return None
    if _is_utf8(head):
        return TextEncoding("utf-8")
    # A guess: Windows programs write cp1252. A byte that it leaves undefined speaks for latin-1, which defines all.
    return TextEncoding("latin-1" if set(head) & set(_UNUSED_IN_CP1252) else "cp1252")


def _is_utf8(head: bytes) -> bool:
    """Whether the bytes are UTF-8; the last character may be incomplete where the head was cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        return False
    return True


def encoding_from_name(name: str) -> TextEncoding:
    """The encoding of that name; raises `InvalidArguments` for an unknown one."""
    wanted = _CODEC_ALIASES.get(name.lower(), name)
    codec = ""
    if wanted.isascii() and wanted.isprintable() and len(wanted) < _MAX_NAME_LENGTH:
        with suppress(LookupError, ValueError):
            codec = codecs.lookup(wanted).name
    codec = {"iso8859-1": "latin-1"}.get(codec, codec)
    if not codec.startswith(_FILE_CODEC_PREFIXES):  # Python's codecs also include rot13, zlib and others
        raise InvalidArguments(
            f"There is no encoding {name[:_MAX_NAME_LENGTH]!r}. Use utf-8, utf-16, latin-1, cp1252 or base64."
        )
    if codec == "utf-8-sig":
        return TextEncoding("utf-8", codecs.BOM_UTF8)
    if codec in ("utf-16", "utf-32"):
        mark = codecs.BOM_UTF16_LE if codec == "utf-16" else codecs.BOM_UTF32_LE
        return TextEncoding(f"{codec}-le", mark)
    return TextEncoding(codec)
