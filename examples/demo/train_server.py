"""An MCP server with two tools over stdio: one finds trains, the other books a seat and asks for it first."""

from typing import Annotated, Literal

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, MCPServer, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("trains", version="1.0")
TRAINS = [
    {"train": "R7", "from": "Porto", "to": "Lisbon", "departs": "08:15", "arrives": "11:20", "price": 25},
    {"train": "R9", "from": "Porto", "to": "Lisbon", "departs": "10:05", "arrives": "13:40", "price": 19},
    {"train": "E2", "from": "Lisbon", "to": "Madrid", "departs": "21:30", "arrives": "08:10", "price": 48},
]


class Seat(BaseModel):
    """What the person is asked before a seat is booked."""

    place: Literal["window", "aisle"] = Field(description="Where would you like to sit?")
    quiet: bool = Field(default=False, description="In the quiet coach?")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))
def find_trains(to: str) -> list[dict[str, str | int]]:
    """Find trains to a city."""
    return [train for train in TRAINS if str(train["to"]).lower() == to.lower()]


async def ask_seat(train: str) -> Elicit[Seat]:
    """Ask the traveller, who answers when they like."""
    return Elicit(message=f"Which seat on {train}?", schema=Seat)


@server.tool(annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))
async def book_seat(train: str, seat: Annotated[ElicitationResult[Seat], Resolve(ask_seat)]) -> str:
    """Book a seat on a train; the traveller is asked where."""
    if not isinstance(seat, AcceptedElicitation):
        return "No seat was booked."
    coach = "the quiet coach" if seat.data.quiet else "coach 4"
    return f"Seat 12 at the {seat.data.place} of {coach}, train {train}"


if __name__ == "__main__":
    server.run()
