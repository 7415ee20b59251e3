"""Describes a file for messages: the type of a binary file, from its first bytes or its name, and a size in bytes."""

from __future__ import annotations

from mimetypes import guess_type

_IMAGE_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FILE_SIGNATURES = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or a document that is one"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "a macOS program"),
    (b"\xca\xfe\xba\xbe", "a Java class or macOS program"),
    (b"\0asm", "a WebAssembly program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"PAR1", "a Parquet table"),
    (b"OggS", "an Ogg recording"),
    (b"ID3", "an MP3 recording"),
    (b"fLaC", "a FLAC recording"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
)


def detect_image_type(head: bytes) -> str | None:
    """The MIME type of an image that model APIs accept; None for other files and for text."""
    if b"\0" not in head:  # a text that begins with the same letters
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _IMAGE_SIGNATURES if head.startswith(magic)), None)


def is_pdf(head: bytes) -> bool:
    """Whether it is a PDF, which is binary even if its first bytes hold no NUL."""
    return head.startswith(b"%PDF-")


def describe_file_type(head: bytes, name: str) -> str:
    """The type of a binary file in words."""
    for magic, words in _FILE_SIGNATURES:
        if head.startswith(magic):
            return words
    if head[4:8] == b"ftyp":
        return "a video"
    image_type = detect_image_type(head)
    if image_type is not None:
        return image_type
    type_by_name, _ = guess_type(name)
    return f"binary, {type_by_name} by its name" if type_by_name else "binary"


def format_byte_count(byte_count: int) -> str:
    """A number of bytes in words: `1 byte`, `2,048 bytes`."""
    return "1 byte" if byte_count == 1 else f"{byte_count:,} bytes"
