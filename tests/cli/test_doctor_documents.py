"""`surehand doctor` on OpenAPI documents."""

import json

from surehand.cli.doctor_documents import check_documents
from surehand.config.config import read_config
from tests.providers.openapi.api_server import document, operation


async def test_operations_that_are_left_out_are_named_with_the_reason(tmp_path):
    described = document(
        {
            "/a": {"get": operation(operationId="a")},
            "/b": {"get": operation(operationId="b", parameters=[{"$ref": "#/gone"}])},
        },
        servers=[{"url": "http://127.0.0.1:9"}],
    )
    (tmp_path / "api.json").write_text(json.dumps(described))
    (tmp_path / "surehand.yaml").write_text("openapi: {api: {spec: api.json, lock: off}, gone: {spec: gone.json}}")

    good, bad = await check_documents(read_config(tmp_path / "surehand.yaml"), {})

    assert (good.status, good.details) == (
        "warn",
        {"operations": 1, "skipped": [["GET /b", "The reference #/gone leads nowhere."]]},
    )
    assert "GET /b: The reference #/gone leads nowhere" in good.message
    assert bad.status == "fail"
    assert "gone.json" in bad.message
