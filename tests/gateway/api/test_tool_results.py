"""Results of client tools, as browsers send them, and tools that a session's client brings."""

from surehand.gateway.access.tokens import Token, bearer_tokens, hash_token
from tests.gateway.api.served_gateway import bearer, build_runtime, serve

TOKENS = (Token(hash_token("ada"), "ada"), Token(hash_token("bob"), "bob"))
COLOUR = {
    "name": "colour",
    "description": "Ask for a colour.",
    "parameters": {"type": "object", "properties": {"shade": {"type": "string"}}},
}


async def test_a_result_ends_the_call():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick", turn="run1")).json()["call_id"]
        response = await gateway.client.post("/tool-results", json={"callId": call_id, "result": {"colour": "red"}})

    assert response.status_code == 200
    assert response.json()["data"] == {"colour": "red"}


async def test_a_result_of_a_run_is_taken_for_that_run_alone():
    async with serve(build_runtime()) as gateway:
        call_id = (await gateway.call("pick", turn="run1")).json()["call_id"]
        body = {"callId": call_id, "result": "red"}
        other_run = await gateway.client.post("/api/runs/run2/tool-results", json=body)
        taken = await gateway.client.post("/api/runs/run1/tool-results", json=body)
        same = await gateway.client.post("/api/runs/run1/tool-results", json=body)
        different = await gateway.client.post("/api/runs/run1/tool-results", json={**body, "result": "blue"})

    assert other_run.status_code == 403
    assert taken.json()["data"] == same.json()["data"] == "red"
    assert different.status_code == 409


async def test_a_result_without_a_call_is_400_and_for_an_unknown_one_404():
    async with serve(build_runtime()) as gateway:
        for url in ("/tool-results", "/api/runs/run1/tool-results"):
            missing = await gateway.client.post(url, json={"result": 1})
            unknown = await gateway.client.post(url, json={"callId": "nothing", "result": 1})

            assert (missing.status_code, unknown.status_code) == (400, 404)


async def test_a_result_of_another_user_looks_like_an_unknown_call():
    async with serve(build_runtime(), auth=bearer_tokens(*TOKENS)) as gateway:
        call_id = (await gateway.call("pick", token="ada", turn="run1")).json()["call_id"]
        body = {"callId": call_id, "result": "red"}
        for url in ("/tool-results", "/api/runs/run1/tool-results"):
            refused = await gateway.client.post(url, json=body, headers=bearer("bob"))
            unknown = await gateway.client.post(url, json={**body, "callId": "nothing"}, headers=bearer("bob"))

            assert refused.status_code == unknown.status_code == 404


async def test_a_session_brings_tools_of_its_own():
    async with serve(build_runtime(), auth=bearer_tokens(*TOKENS)) as gateway:
        url = "/api/sessions/s1/tools"
        offered = await gateway.client.post(url, json={"tools": [COLOUR]}, headers=bearer("ada"))
        called = await gateway.call("colour", {"shade": "dark"}, token="ada", session="s1")
        other_session = await gateway.call("colour", {"shade": "dark"}, token="ada", session="s2")
        other_user = await gateway.call("colour", {"shade": "dark"}, token="bob", session="s1")
        listed = (await gateway.client.get("/api/tools?session=s1", headers=bearer("ada"))).json()["items"]
        body = {"callId": called.json()["call_id"], "result": "navy"}
        answered = await gateway.client.post("/tool-results", json=body, headers=bearer("ada"))

    assert [each["name"] for each in offered.json()["items"]] == ["colour"]
    assert (called.status_code, called.json()["waiting_for"]) == (202, "result")
    assert other_session.status_code == other_user.status_code == 404
    assert "colour" in [each["name"] for each in listed]
    assert answered.json()["data"] == "navy"


async def test_a_session_cannot_replace_a_tool_of_the_runtime_or_bring_a_broken_one():
    async with serve(build_runtime()) as gateway:
        taken = await gateway.client.post("/api/sessions/s1/tools", json={"tools": [{**COLOUR, "name": "pay"}]})
        broken = {**COLOUR, "parameters": {"type": "object", "properties": {"x": {"type": "nonsense"}}}}
        invalid = await gateway.client.post("/api/sessions/s1/tools", json={"tools": [broken]})

    assert taken.status_code == 409
    assert invalid.status_code == 422


async def test_offered_tools_are_answered_after_a_restart(tmp_path):
    async with serve(build_runtime(store=tmp_path / "calls.db")) as gateway:
        await gateway.client.post("/api/sessions/s1/tools", json={"tools": [COLOUR]})
        call_id = (await gateway.call("colour", {"shade": "dark"}, session="s1")).json()["call_id"]

    async with serve(build_runtime(store=tmp_path / "calls.db")) as gateway:
        answered = await gateway.client.post("/tool-results", json={"callId": call_id, "result": "navy"})

    assert answered.json()["data"] == "navy"


async def test_client_tools_with_many_patterns_are_refused_before_any_is_compiled():
    properties = {
        f"p{number}": {"type": "string", "pattern": rf"(\w{{1,40}}x{number}){{1,30}}"} for number in range(60)
    }
    many = {**COLOUR, "name": "many", "parameters": {"type": "object", "properties": properties}}
    async with serve(build_runtime()) as gateway:
        refused = await gateway.client.post("/api/sessions/s1/tools", json={"tools": [many]})

    assert refused.status_code == 422
    assert "patterns" in refused.json()["detail"]
