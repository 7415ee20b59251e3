"""An agent with a typed answer, streamed: it asks for the weather of several cities at once and gives one report.

Run it: python weather_report.py Lisbon Oslo
With OPENAI_API_KEY it asks a real model, otherwise a script.
"""

import asyncio
import json
import os
import sys

from pydantic import BaseModel

from surehand import Agent, events, tool
from surehand.testing import ScriptedModel

TEMPERATURES = {"Lisbon": 24, "Oslo": 9, "Cairo": 33}


class Report(BaseModel):
    """What the agent has to answer."""

    warmest: str
    summary: str


@tool(effects={"read"})
async def weather(city: str) -> dict[str, object]:
    """The weather of a city."""
    await asyncio.sleep(0.05)  # a slow service: the calls of one answer run at the same time
    return {"city": city, "celsius": TEMPERATURES.get(city, 15)}


def script(cities: list[str]) -> ScriptedModel:
    """Asks for each city, then reports."""

    def report(messages: list[dict[str, str]]) -> str:
        results = [json.loads(message["content"]) for message in messages if message["role"] == "tool"]
        warmest = max(results, key=lambda each: each["celsius"])["city"]
        return json.dumps({"warmest": warmest, "summary": f"It is warmest in {warmest}."})

    return ScriptedModel([("weather", {"city": city}) for city in cities], report)


async def main() -> None:
    cities = sys.argv[1:] or ["Lisbon", "Oslo"]
    model = "openai:gpt-5-mini" if os.environ.get("OPENAI_API_KEY") else script(cities)
    agent = Agent("reporter", model=model, tools=[weather], output=Report)
    async for event in agent.stream(f"Compare the weather of {', '.join(cities)}."):
        match event:
            case events.CallEnded(tool=name, outcome=outcome):
                print(f"{name}: {outcome.text}")
            case events.RunEnded(run):
                print(run.output.summary if run.status == "done" else run.reason)


if __name__ == "__main__":
    asyncio.run(main())
