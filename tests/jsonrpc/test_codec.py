"""Bytes become messages, or an error that says what is wrong and which request it is about."""

import json

import pytest
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from surehand.jsonrpc import codec
from surehand.jsonrpc.codec import MalformedMessage, OverlongFrame
from surehand.jsonrpc.limits import CLIENT_MESSAGE_LIMITS, SERVER_MESSAGE_LIMITS, MessageLimits


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', JSONRPCRequest),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', JSONRPCNotification),
        (b'{"jsonrpc":"2.0","id":"a","result":{}}', JSONRPCResponse),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}', JSONRPCError),
    ],
)
def test_each_kind_of_message_survives_a_round_trip(frame, kind):
    message = codec.decode(frame, CLIENT_MESSAGE_LIMITS)

    assert type(message) is kind
    assert json.loads(codec.encode(message)) == json.loads(frame)


@pytest.mark.parametrize(
    ("frame", "problem", "request_id"),
    [
        (b"{", "not_json", None),
        (b"[]", "not_a_message", None),
        (b"7", "not_a_message", None),
        (b'{"jsonrpc":"2.0","id":7,"method":7}', "not_a_message", 7),
        (b'{"jsonrpc":"1.0","id":"a","method":"x"}', "not_a_message", "a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":NaN}}', "not_json", None),
        (b'{"jsonrpc":"2.0","id":"%b","method":"x"}' % (b"x" * 300), "id_too_long", None),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":"%b"}}}' % (b"x" * 300),
            "id_too_long",
            None,
        ),
    ],
)
def test_a_malformed_message_has_a_reason_and_the_request_id(frame, problem, request_id):
    refused = codec.decode(frame, CLIENT_MESSAGE_LIMITS)

    assert isinstance(refused, MalformedMessage)
    assert (refused.problem, refused.id, refused.is_response) == (problem, request_id, False)
    assert refused.as_error().error.message == refused.description


def test_a_malformed_response_is_recognized():
    refused = codec.decode(b'{"jsonrpc":"2.0","id":3,"result":7}', SERVER_MESSAGE_LIMITS)

    assert isinstance(refused, MalformedMessage)
    assert (refused.id, refused.is_response) == (3, True)


def test_a_server_may_send_numbers_that_json_does_not_have():
    message = codec.decode(b'{"jsonrpc":"2.0","id":1,"result":{"n":NaN}}', SERVER_MESSAGE_LIMITS)

    assert isinstance(message, JSONRPCResponse)
    assert codec.encode(message) == b'{"jsonrpc":"2.0","id":1,"result":{"n":null}}'


@pytest.mark.parametrize("start", [b'{"jsonrpc":"2.0","id":%b,', b'{"id":%b,"jsonrpc":"2.0",'])
@pytest.mark.parametrize("given", [7, "seven"])
def test_the_id_of_a_message_with_too_many_values_is_found_without_parsing_it(start, given):
    brackets = b"[" * 60_000 + b"]" * 60_000
    first = start % json.dumps(given).encode() + b'"method":"x","params":{"deep":' + brackets + b"}}"
    last = b'{"jsonrpc":"2.0","result":{"deep":%b},"id":%b}' % (brackets, json.dumps(given).encode())

    for frame in (first, last):
        refused = codec.parse_frame(frame, CLIENT_MESSAGE_LIMITS)
        assert isinstance(refused, MalformedMessage)
        assert (refused.problem, refused.id) == ("too_many_values", given)
    assert codec.salvage_id(first[:100], first[-100:]) == (given, True)
    assert codec.salvage_id(last[:100], last[-100:]) == (given, False)


def test_a_message_that_is_too_long_is_answered_under_its_id():
    refused = codec.decode(
        OverlongFrame(b'{"method":"x","id":5,"params":{"text":"aaa', b"aaa", 100), CLIENT_MESSAGE_LIMITS
    )

    assert isinstance(refused, MalformedMessage)
    assert (refused.problem, refused.id) == ("too_long", 5)
    assert "100 bytes" in refused.description


def test_the_size_of_initialize_is_limited():
    limits = MessageLimits(max_values=1000, max_initialize_bytes=100)
    frame = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"text":"%b"}}' % (b"x" * 100)

    refused = codec.decode(frame, limits)

    assert isinstance(refused, MalformedMessage)
    assert (refused.problem, refused.id) == ("too_long", 1)
    assert isinstance(codec.decode(frame.replace(b"initialize", b"tools/call"), limits), JSONRPCRequest)


def test_a_lone_surrogate_is_written_as_a_question_mark():
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "a\ud800b"})

    assert json.loads(codec.encode(message))["result"] == {"text": "a?b"}
    assert json.loads(codec.encode_result(1, {"text": "a\ud800b"}))["result"] == {"text": "a?b"}


def test_requests_results_and_errors_are_written_without_a_model():
    assert codec.encode_request(1, "ping", {}) == b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}'
    assert codec.encode_result("a", {"x": float("inf")}) == b'{"jsonrpc":"2.0","id":"a","result":{"x":null}}'
    error = json.loads(codec.encode_error(None, ErrorData(code=-1, message="no")))
    assert error == {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "no"}}
