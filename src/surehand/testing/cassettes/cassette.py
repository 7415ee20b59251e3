"""Cassette: real calls, recorded once into a file and replayed without the work being done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from surehand.catalogue.wrap import WrappedProvider
from surehand.core.call import Principal
from surehand.core.outcome import Failed, Outcome
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.testing import tool_definition
from surehand.testing.cassettes.player import CassettePlayer
from surehand.testing.cassettes.recorder import CassetteRecorder
from surehand.testing.cassettes.recording import Recording
from surehand.testing.cassettes.serialization import JSON, json_converter
from surehand.testing.unscripted import UnscriptedGuard


@dataclass(eq=False)
class CassetteProvider(WrappedProvider):
    """The real provider while a cassette records; while it replays, the tools that were recorded."""

    cassette: Cassette

    async def start(self) -> None:
        if self.cassette.recording:
            await self.inner.start()

    async def stop(self) -> None:
        if self.cassette.recording:
            await self.inner.stop()

    async def tools(self) -> list[Tool[..., Any]]:
        """The tools that it offers now, or offered then."""
        if not self.cassette.recording:
            return [
                tool_definition.tool_from_json(each, self.kind)
                for each in self.cassette.recorded_provider(self.namespace)["tools"]
            ]
        found = list(await self.inner.tools())
        told = {"instructions": text} if (text := self.inner.instructions()) else {}
        self.cassette.providers[self.namespace] = {
            **told,
            "tools": [tool_definition.tool_to_json(tool) for tool in found],
        }
        return found

    def instructions(self) -> str:
        if self.cassette.recording:
            return self.inner.instructions()
        return str(self.cassette.recorded_provider(self.namespace).get("instructions", ""))

    def instructions_for(self, principal: Principal) -> str:
        return super().instructions_for(principal) if self.cassette.recording else self.instructions()


CassetteMode: TypeAlias = Literal["auto", "record", "replay"]
CASSETTE_VERSION = 1


class Cassette(UnscriptedGuard):
    """Middleware that records or replays: `with cassette(path) as tape:` and `Runtime(..., middleware=[tape])`."""

    def __init__(self, path: str | os.PathLike[str], mode: CassetteMode, redact: Iterable[str], tools: str) -> None:
        super().__init__()
        if mode not in ("auto", "record", "replay"):
            raise ValueError(f"{mode!r} is no mode. Use auto, record or replay.")
        self.path, self.mode = Path(path), mode
        self._tool_glob, self._to_json = tools, json_converter(redact)
        self._recorder_or_player: CassetteRecorder | CassettePlayer | None = None
        self.providers: dict[str, dict[str, JSON]] = {}
        """What the providers offered, by namespace."""

    @property
    def recording(self) -> bool:
        """Whether the work is done and written down, rather than replayed."""
        return isinstance(self._require_open(), CassetteRecorder)

    @property
    def unused(self) -> list[Recording]:
        """The recordings that no call has asked for yet."""
        return self._recorder_or_player.library.unused if isinstance(self._recorder_or_player, CassettePlayer) else []

    def provider(self, provider: Provider) -> Provider:
        """The same provider with its tools on the tape, so that a replay does not start it."""
        return CassetteProvider(provider, list, str, self)

    def recorded_provider(self, namespace: str) -> dict[str, JSON]:
        """What a provider offered when it was recorded."""
        if namespace not in self.providers:
            self._report_miss(f"The provider {namespace}", f"Those that are: {', '.join(self.providers) or 'none'}.")
        return self.providers.get(namespace, {"tools": []})

    def __enter__(self) -> Self:
        records = self.mode == "record" or (self.mode == "auto" and not self.path.exists())
        self._recorder_or_player = (
            CassetteRecorder(self._to_json)
            if records
            else CassettePlayer(self._load(), self._to_json, self._report_miss)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._recorder_or_player, CassetteRecorder) and error is None:
            self._save(self._recorder_or_player.recordings)
        super().__exit__(kind, error, trace)

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> Outcome:
        """Record or replay one call."""
        reel = self._require_open()
        # What a recorded call calls in turn is part of its work.
        if invocation.parent in reel.open_calls or not fnmatchcase(invocation.listing.name, self._tool_glob):
            return await proceed(invocation)
        return await reel(invocation, proceed)

    def _require_open(self) -> CassetteRecorder | CassettePlayer:
        if self._recorder_or_player is None:
            raise RuntimeError(f"open it first: `with cassette({str(self.path)!r}) as tape:`")
        return self._recorder_or_player

    def _report_miss(self, wanted: Recording | str, why: str) -> Failed:
        told = (
            f"{wanted} is not recorded in {self.path}. {why} "
            f'To record it, run once with mode="record" (or delete the file) and the real tool.'
        )
        self.missing.append(told)
        return Failed("not_found", told)

    def _load(self) -> list[Recording]:
        if not self.path.exists():
            raise FileNotFoundError(f'There is no cassette {self.path}. Record it with mode="record" or "auto".')
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            if kept["cassette"] != CASSETTE_VERSION:
                raise ValueError(f"it is of version {kept['cassette']}, and not {CASSETTE_VERSION}")
            self.providers = kept.get("providers", {})
            return [Recording(**each) for each in kept["calls"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} cannot be replayed ({error}). Delete it and record again.") from error

    def _save(self, recordings: list[Recording]) -> None:
        calls = [recording.as_dict() for recording in recordings if recording.is_replayable]
        providers = {"providers": self._to_json(self.providers)} if self.providers else {}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_bytes(_encode_json({"cassette": CASSETTE_VERSION, **providers, "calls": calls}))
        draft.replace(self.path)


def cassette(
    path: str | os.PathLike[str], mode: CassetteMode = "auto", *, redact: Iterable[str] = (), tools: str = "*"
) -> Cassette:
    """Record calls into a file, or replay them; `auto` records where there is no file yet.

    `redact` lists secrets that the file must not hold; `tools` is the glob of the tools that are meant.
    """
    return Cassette(path, mode, redact, tools)


def _encode_json(value: Any) -> bytes:
    try:
        return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 has no bytes for
        return f"{json.dumps(value, indent=2)}\n".encode()
