"""Elicitation forms and URLs: what a person is shown, and which answers are accepted."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ElicitResult, ListRootsResult

from surehand.core.errors import Denied, InvalidArguments
from surehand.providers.mcp.connection.elicitation import build_input_responses, build_question, refusal_reason

BOOKING = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "default": 1},
        "breakfast": {"type": "boolean", "default": False},
        "price": {"type": "number"},
        "room": {"type": "string", "oneOf": [{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["sauna", "bike"]}, "maxItems": 2},
        "email": {"type": "string", "format": "email"},
    },
    "required": ["city"],
}


def form(schema: Any = BOOKING, message: str = "Which room?") -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def url(address: Any, message: str = "Sign in.") -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": message, "url": address}}


def single(**field: Any) -> dict[str, Any]:
    return form({"type": "object", "properties": {"value": field}, "required": ["value"]})


ROOTS = {"method": "roots/list"}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}


def content(request: dict[str, Any], answer: Any) -> Any:
    found = build_input_responses({"k": request}, answer)["k"]
    ElicitResult.model_validate(found)
    assert found["action"] == "accept"
    return found["content"]


# --- questions


def test_a_form_names_the_server_and_the_question():
    question = build_question({"k": form()}, server="hotel")

    assert question.message == "hotel asks: Which room?"
    asked = {"mode": "form", "server": "hotel", "message": "Which room?", "schema": BOOKING}
    assert question.request == {**asked, "key": "k"}
    assert build_question({"now": form()}, server="hotel").request == asked
    json.dumps(question.request)


def test_texts_of_a_form_are_cleaned_and_its_choices_are_kept():
    field = {"type": "string", "description": "a\u202eb\U000e0041", "enum": ["x\u200b"], "enumNames": ["X\x1b[31m"]}

    question = build_question(
        {"k": form({"type": "object", "properties": {"a": field}}, "Do \x1b[8mnot\x1b[0m\u200b look")}
    )

    assert question.message == "Do not look"
    shown = question.request["schema"]["properties"]["a"]
    assert shown == {"type": "string", "description": "ab", "enum": ["x\u200b"], "enumNames": ["X"]}


def test_a_url_is_shown_with_its_host():
    question = build_question({"k": url("https://auth.example.org:8443/start?x=1#y")}, server="hotel")

    assert question.message == (
        "hotel asks: Sign in. Open https://auth.example.org:8443/start?x=1#y (on auth.example.org)"
    )
    assert question.request["mode"] == "url"
    assert question.request["url"] == "https://auth.example.org:8443/start?x=1#y"
    assert question.request["host"] == "auth.example.org"


@pytest.mark.parametrize("address", ["https://аррӏе.com/x", "https://xn--80ak6aa92e.com/x"])  # noqa: RUF001 - look-alikes
def test_a_host_that_imitates_another_is_shown_in_ascii(address):
    question = build_question({"k": url(address)}, server="hotel")

    assert question.request["host"] == "xn--80ak6aa92e.com"
    assert question.request["url"] == "https://xn--80ak6aa92e.com/x"
    assert question.request["looks_like"] == "аррӏе.com"  # noqa: RUF001 - see above
    assert "on xn--80ak6aa92e.com, which only looks like" in question.message


def test_several_questions_are_asked_at_once_and_roots_are_not_asked():
    requests = {"room": form(), "login": url("https://a.example/"), "where": ROOTS}

    question = build_question(requests, server="hotel")

    assert question.request["mode"] == "several"
    assert question.request["requests"].keys() == {"room", "login"}
    assert question.request["requests"]["login"]["host"] == "a.example"
    assert "Which room?" in question.message
    assert "https://a.example/" in question.message


def test_a_request_for_roots_alone_is_no_question():
    requests = {"where": ROOTS}

    assert build_question(requests) is None
    found = build_input_responses(requests, None, roots=["file:///work", {"uri": "file:///x", "name": "X"}])
    assert found == {"where": {"roots": [{"uri": "file:///work"}, {"uri": "file:///x", "name": "X"}]}}
    ListRootsResult.model_validate(found["where"])


# --- refusals


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "ftp://example.org/",
        "//example.org/",
        "example.org",
        "",
        None,
        5,
        "https://",
        "https:///path",
        "https://user@example.org/",
        "https://google.com:pass@evil.example/",
        "https://google.com\\@evil.example/",
        "https://exa\u202emple.org/",
        "https://example.org/\u202ex",
        "https://example.org/пять",
        "https://example.org/a b",
        "https://example.org:99999/",
        "https://example.org:x/",
        "https://[::1/",
        "https://a..b/",
        f"https://{'a' * 70}.org/",
        "https://example.org/" + "x" * 9_000,
        "https://example.org\uff0fevil/",
        "java\nscript:alert(1)",
    ],
)
def test_an_unsafe_url_is_refused(address):
    requests = {"k": url(address)}

    assert "asks to open" in refusal_reason(requests)
    with pytest.raises(Denied, match="asks to open"):
        build_question(requests)


@pytest.mark.parametrize(
    "address", ["http://localhost:8080/cb", "https://127.0.0.1/", "https://[::1]:9/x", "HTTPS://A.example/?a={b}|c"]
)
def test_a_safe_url_is_accepted(address):
    assert refusal_reason({"k": url(address)}) is None
    assert build_question({"k": url(address)}).request["host"]


def test_requests_that_cannot_be_answered_are_refused_with_a_reason():
    assert "sampling" in refusal_reason({"a": form(), "b": SAMPLE})
    assert "'tasks/do'" in refusal_reason({"a": {"method": "tasks/do"}})
    assert "at most 20" in refusal_reason({str(n): form() for n in range(21)})
    assert refusal_reason({"a": form(), "b": ROOTS, "c": url("https://a.example/")}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a\u200b": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"enum": ["\U000e0041"]}}},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 5}},
        {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(200)}},
        {"type": "object", "properties": {"a": {"$ref": "https://evil.example/"}}},
        {"type": "object", "properties": {"a": {"description": "x" * 300_000}}},
    ],
)
def test_a_form_that_cannot_be_shown_is_refused(schema):
    assert "form" in refusal_reason({"k": form(schema)})


# --- answers


def test_values_are_validated_and_defaults_filled_in():
    assert content(form(), {"city": "Rome"}) == {"city": "Rome", "nights": 1, "breakfast": False}
    assert content(form(), {"action": "accept", "content": {"city": "Rome", "nights": 2}})["nights"] == 2
    assert content(form(), {"city": "Rome", "nights": None, "price": None}) == {"city": "Rome", "breakfast": False}


def test_numbers_and_choices_are_accepted_as_typed_text():
    typed = {"city": "Rome", "nights": "5", "breakfast": "true", "price": "9.5", "extras": "bike", "room": "d"}

    assert content(form(), typed) == {
        "city": "Rome", "nights": 5, "breakfast": True, "price": 9.5, "extras": ["bike"], "room": "d",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, "city"),
        ({"city": "R"}, "city"),
        ({"city": "Rome", "nights": 0}, "nights"),
        ({"city": "Rome", "nights": "many"}, "nights"),
        ({"city": "Rome", "room": "x"}, "room"),
        ({"city": "Rome", "extras": ["pool"]}, "extras"),
        ({"city": "Rome", "extras": ["bike", "sauna", "bike"]}, "extras"),
        ({"city": "Rome", "email": "nobody"}, "email"),
        ({"city": {"name": "Rome"}}, "city"),
        ({"city": ["Rome"]}, "city"),
        ({"town": "Rome"}, "no field 'town'"),
        ({"citty": "Rome"}, "did you mean 'city'"),
        ({"city": "Rome", "price": float("nan")}, "nan"),
        ({"action": "maybe"}, "accept, decline or cancel"),
        ({"action": "accept", "content": "Rome"}, "by name"),
        ("Rome", "by name"),
        (None, "by name"),
        (5, "by name"),
        (["Rome"], "by name"),
        (True, "city"),
    ],
)
def test_an_invalid_answer_is_refused_with_the_reason(answer, why):
    with pytest.raises(InvalidArguments, match=why):
        build_input_responses({"k": form()}, answer)


@pytest.mark.parametrize(
    ("answer", "action"),
    [({"action": "decline"}, "decline"), ({"action": "cancel", "content": None}, "cancel"), (False, "decline")],
)
def test_a_person_can_decline(answer, action):
    assert build_input_responses({"k": form()}, answer) == {"k": {"action": action}}
    assert build_input_responses({"k": url("https://a.example/")}, answer) == {"k": {"action": action}}


@pytest.mark.parametrize("answer", [True, None, {}, "accept", {"action": "accept"}])
def test_a_url_accepts_a_bare_yes(answer):
    assert build_input_responses({"k": url("https://a.example/")}, answer) == {"k": {"action": "accept"}}


@pytest.mark.parametrize("answer", ["maybe", 5, [], {"code": 1}, {"action": "maybe"}])
def test_a_url_accepts_no_other_answer(answer):
    with pytest.raises(InvalidArguments):
        build_input_responses({"k": url("https://a.example/")}, answer)


def test_a_form_with_one_field_accepts_its_bare_value():
    assert content(single(type="string"), "Rome") == {"value": "Rome"}
    assert content(single(type="integer"), "5") == {"value": 5}
    assert content(single(type="boolean"), True) == {"value": True}
    assert content(single(type="boolean"), False) == {"value": False}
    assert build_input_responses({"k": single(type="string")}, False) == {"k": {"action": "decline"}}
    with pytest.raises(InvalidArguments):
        build_input_responses({"k": single(type="string")}, None)


def test_a_bare_yes_or_no_never_fills_an_optional_field():
    box = form({"type": "object", "properties": {"always": {"type": "boolean", "default": False}}})

    assert content(box, True) == {"always": False}
    assert build_input_responses({"k": box}, False) == {"k": {"action": "decline"}}
    assert content(box, {"always": True}) == {"always": True}
    for odd in ("true", "yes", 1):
        with pytest.raises(InvalidArguments, match="by name: always"):
            build_input_responses({"k": box}, odd)


def test_any_other_bare_value_fills_the_only_field_even_if_it_is_optional():
    name = form({"type": "object", "properties": {"name": {"type": "string"}}})

    assert content(name, "Ada") == {"name": "Ada"}
    assert content(name, True) == {}


def test_a_form_without_fields_accepts_a_bare_yes():
    bare = form({"type": "object", "properties": {}})

    assert content(bare, True) == content(bare, {}) == {}


def test_a_field_named_action_is_a_field():
    request = form({"type": "object", "properties": {"action": {"type": "string", "enum": ["buy", "decline"]}}})

    assert content(request, {"action": "decline"}) == {"action": "decline"}
    assert content(request, {"action": "accept", "content": {"action": "buy"}}) == {"action": "buy"}
    assert build_input_responses({"k": request}, {"action": "decline", "content": None}) == {"k": {"action": "decline"}}


def test_several_questions_are_answered_by_key_or_all_at_once():
    requests = {"room": single(type="integer"), "login": url("https://a.example/"), "where": ROOTS}

    assert build_input_responses(requests, {"room": {"value": "2"}, "login": True}) == {
        "where": {"roots": []},
        "room": {"action": "accept", "content": {"value": 2}},
        "login": {"action": "accept"},
    }
    assert build_input_responses(requests, {"action": "cancel"})["room"] == {"action": "cancel"}
    assert build_input_responses(requests, False)["login"] == {"action": "decline"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"room": {"value": 2}}, "'login' is missing"),
        ({"room": {"value": "x"}, "login": True}, "^room: "),
        ({"room": {"value": 2}, "login": True, "more": 1}, "'more' is none of the questions"),
        (True, "by its key: 'room', 'login'"),
        (None, "by its key"),
    ],
)
def test_several_questions_need_all_answers(answer, why):
    with pytest.raises(InvalidArguments, match=why):
        build_input_responses({"room": single(type="integer"), "login": url("https://a.example/")}, answer)


FIELDS = st.dictionaries(
    st.text(max_size=5),
    st.sampled_from([
        {"type": "string"}, {"type": "integer", "default": 3}, {"type": "boolean", "default": True}, {"type": "number"},
        {"type": "array", "items": {"enum": ["a"]}}, {"enum": ["a", "b"], "default": "a"}, {"type": "strng"}, True,
    ]),
    max_size=3,
)  # fmt: skip
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["action", "content"]) | st.text(), inner)
    ),
    max_leaves=6,
)


@given(FIELDS, ANSWERS)
def test_any_answer_becomes_a_response_or_is_refused(fields, answer):
    requests = {"k": form({"type": "object", "properties": fields})}
    if refusal_reason(requests):
        return
    try:
        found = build_input_responses(requests, answer)
    except InvalidArguments:
        return
    ElicitResult.model_validate_json(json.dumps(found["k"], allow_nan=False))
