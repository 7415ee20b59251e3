"""`cassette(path)`: middleware that records real calls into a file, or replays them from it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from surehand.catalogue.wrap import WrappedProvider
from surehand.core.call import Call, Principal
from surehand.core.outcome import Failed, Outcome
from surehand.core.provider import Provider
from surehand.core.provider_abilities import ProviderAbilities
from surehand.core.tool import Tool
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.testing import tool_definition
from surehand.testing.cassettes.player import CassettePlayer
from surehand.testing.cassettes.recorder import CassetteRecorder
from surehand.testing.cassettes.recording import Recording
from surehand.testing.cassettes.serialization import JSON, json_converter
from surehand.testing.unscripted import UnscriptedGuard


@dataclass(eq=False)
class CassetteProvider(WrappedProvider):
    """A provider whose tools are recorded too, so that a replay does not start it."""

    cassette: Cassette

    def abilities(self) -> ProviderAbilities:
        """What the provider supports; a replay leaves it alone."""
        return replace(super().abilities(), startable=self, stoppable=self, instructive=self)

    async def start(self) -> None:
        if self.cassette.recording and (startable := self.inner_abilities.startable) is not None:
            await startable.start()

    async def stop(self) -> None:
        if self.cassette.recording and (stoppable := self.inner_abilities.stoppable) is not None:
            await stoppable.stop()

    async def check_call(self, call: Call) -> None:
        if self.cassette.recording:
            await super().check_call(call)

    async def tools(self) -> list[Tool[..., Any]]:
        """Return the tools of the provider, or the recorded ones."""
        if not self.cassette.recording:
            return [
                tool_definition.tool_from_json(definition, self.kind)
                for definition in self.cassette.recorded_provider(self.namespace)["tools"]
            ]
        tools = list(await self.inner.tools())
        text = self._inner_instructions(Principal())
        instructions = {"instructions": text} if text else {}
        self.cassette.providers[self.namespace] = {
            **instructions,
            "tools": [tool_definition.tool_to_json(tool) for tool in tools],
        }
        return tools

    def instructions(self, principal: Principal) -> str:
        if self.cassette.recording:
            return self._inner_instructions(principal)
        return str(self.cassette.recorded_provider(self.namespace).get("instructions", ""))

    def _inner_instructions(self, principal: Principal) -> str:
        instructive = self.inner_abilities.instructive
        return "" if instructive is None else instructive.instructions(principal)


CassetteMode: TypeAlias = Literal["auto", "record", "replay"]
CASSETTE_VERSION = 1


class Cassette(UnscriptedGuard):
    """Middleware that records or replays: `with cassette(path) as tape:` and `Runtime(..., middleware=[tape])`."""

    def __init__(self, path: str | os.PathLike[str], mode: CassetteMode, redact: Iterable[str], tools: str) -> None:
        super().__init__()
        if mode not in ("auto", "record", "replay"):
            raise ValueError(f"`mode` must be auto, record or replay, got {mode!r}.")
        self.path = Path(path)
        self.mode = mode
        self._tool_glob = tools
        self._to_json = json_converter(redact)
        self._recorder_or_player: CassetteRecorder | CassettePlayer | None = None
        self.providers: dict[str, dict[str, JSON]] = {}
        """The recorded tools and instructions of providers, by namespace."""

    @property
    def recording(self) -> bool:
        """Whether calls run and are recorded, rather than replayed."""
        return isinstance(self._require_open(), CassetteRecorder)

    @property
    def unused(self) -> list[Recording]:
        """The recordings that no call has replayed yet."""
        return self._recorder_or_player.library.unused if isinstance(self._recorder_or_player, CassettePlayer) else []

    def provider(self, provider: Provider) -> Provider:
        """Wrap a provider so that its tools are recorded too and a replay does not start it."""
        return CassetteProvider(provider, list, str, self)

    def recorded_provider(self, namespace: str) -> dict[str, JSON]:
        """Return the recorded tools and instructions of a provider."""
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

    async def __call__(self, invocation: Invocation, proceed: NextStage) -> Outcome:
        """Record or replay one call."""
        recorder_or_player = self._require_open()
        # Calls made by a recorded call are part of its work, and not recorded by themselves.
        is_nested = invocation.parent in recorder_or_player.open_calls
        if is_nested or not fnmatchcase(invocation.listing.name, self._tool_glob):
            return await proceed(invocation)
        return await recorder_or_player(invocation, proceed)

    def _require_open(self) -> CassetteRecorder | CassettePlayer:
        if self._recorder_or_player is None:
            raise RuntimeError(f"The cassette is not open. Use `with cassette({str(self.path)!r}) as tape:`.")
        return self._recorder_or_player

    def _report_miss(self, wanted: Recording | str, why: str) -> Failed:
        message = (
            f"{wanted} is not recorded in {self.path}. {why} "
            f'To record it, run once with mode="record" (or delete the file) and the real tool.'
        )
        self.missing.append(message)
        return Failed("not_found", message)

    def _load(self) -> list[Recording]:
        if not self.path.exists():
            raise FileNotFoundError(f'There is no cassette {self.path}. Record it with mode="record" or "auto".')
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["cassette"] != CASSETTE_VERSION:
                raise ValueError(f"it has version {stored['cassette']}, not {CASSETTE_VERSION}")
            self.providers = stored.get("providers", {})
            return [Recording(**each) for each in stored["calls"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} cannot be replayed ({error}). Delete it and record again.") from error

    def _save(self, recordings: list[Recording]) -> None:
        calls = [recording.as_dict() for recording in recordings if recording.is_replayable]
        providers = {"providers": self._to_json(self.providers)} if self.providers else {}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_bytes(_encode_json({"cassette": CASSETTE_VERSION, **providers, "calls": calls}))
        draft.replace(self.path)  # in one step: a test that is interrupted leaves the old file or the new one


def cassette(
    path: str | os.PathLike[str], mode: CassetteMode = "auto", *, redact: Iterable[str] = (), tools: str = "*"
) -> Cassette:
    """Record calls into a file, or replay them; `auto` records if the file does not exist.

    `redact` lists secrets that must not be in the file; `tools` is a glob of the tools to record.
    """
    return Cassette(path, mode, redact, tools)


def _encode_json(value: Any) -> bytes:
    try:
        return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return f"{json.dumps(value, indent=2)}\n".encode()
