"""The form of an MCP server is shown field by field."""

from surehand.cli.elicitation_form import render_form

FORM = {
    "mode": "form",
    "schema": {
        "type": "object",
        "properties": {
            "sure": {"type": "boolean", "title": "Sure?"},
            "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}], "default": "r"},
            "days": {"type": "array", "items": {"enum": ["mo", "tu"]}, "description": "When\x1b[31m"},
        },
        "required": ["sure"],
    },
}


def test_a_form_is_shown_by_its_fields_with_an_answer_to_copy():
    assert render_form(FORM).plain.splitlines() == [
        "  sure (boolean): Sure?",
        '  colour (one of "r", "g", default "r", optional)',
        '  days (some of "mo", "tu", optional): When\\u001b[31m',
        'Answer with JSON, such as {"sure": true}. {"action": "decline"} says no.',
    ]


def test_a_form_in_which_nothing_has_to_be_filled_in_takes_yes_and_no():
    box = {"mode": "form", "schema": {"properties": {"always": {"type": "boolean", "title": "Do not ask again"}}}}

    assert render_form(box).plain.splitlines() == [
        "  always (boolean, optional): Do not ask again",
        'Answer `true` for yes, `false` for no. To fill in a field, answer with JSON, such as {"always": true}.',
    ]
    assert render_form({"mode": "form", "schema": {}}).plain == "Answer `true` for yes, `false` for no."


def test_a_url_is_shown_with_how_to_confirm():
    shown = render_form({"mode": "url", "url": "https://example.com/in"}).plain
    assert shown.splitlines()[0] == "Open https://example.com/in"
    assert "`true`" in shown


def test_several_questions_are_shown_by_name():
    shown = render_form({"mode": "several", "requests": {"a": FORM, "b": {"mode": "url", "url": "https://x"}}}).plain
    assert "a:   sure (boolean)" in shown
    assert "b: Open https://x" in shown
    assert 'Answer by name: {"a", "b": ...}.' in shown


def test_other_requests_are_not_forms():
    assert render_form({"schema": {}}) is None
