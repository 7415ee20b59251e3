"""The benchmark of OpenAPI imports runs. The numbers are not checked, because a busy machine must not fail a test."""

import json

from bench import openapi_import
from tests.providers.openapi.api_server import document, operation


async def test_an_import_is_measured(tmp_path, monkeypatch):
    paths = {f"/{number}": {"get": operation(operationId=f"get{number}")} for number in range(1_001)}
    path = tmp_path / "document.json"
    path.write_text(json.dumps(document(paths, servers=[{"url": "https://a.example"}])))
    monkeypatch.setattr(openapi_import, "DOCUMENT", path)

    [row] = await openapi_import.measure_openapi_import(rounds=1)

    assert row.measured is not None
    assert row.measured > 0


async def test_a_missing_document_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(openapi_import, "DOCUMENT", tmp_path / "missing.json")

    [row] = await openapi_import.measure_openapi_import(rounds=1)

    assert (row.measured, row.note) == (None, "scripts/openapi-corpus --install has not installed it")
