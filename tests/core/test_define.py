"""Every form in which a tool can be defined."""

import dataclasses
import functools
import inspect
import logging
import typing
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typing_extensions
from pydantic import BaseModel, Field

from surehand import Cache, Context, DefinitionError, Done, Failed, Pending, Runtime, Tool, tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Book(BaseModel):
    """A book on the shelf."""

    title: str = Field(description="As printed on the cover.")
    pages: int = 10


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


class Trip(typing.TypedDict):
    to: str
    days: typing.NotRequired[int]


class Stay(typing_extensions.TypedDict, total=False):
    nights: Annotated[int, Field(ge=1)]
    town: typing_extensions.Required[str]


# Functions


async def test_a_bare_decorator_takes_everything_from_the_function() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    assert (add.name, add.description, add.kind) == ("add", "Add two numbers.", "function")
    assert add.schema["required"] == ["a", "b"]
    assert await add.run({"a": 1, "b": "2"}) == Done(3)


async def test_a_tool_is_still_the_function_that_it_was_made_from() -> None:
    @tool
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @tool()
    def double(a: int) -> int:
        return 2 * a

    assert await add(1, b=2) == 3
    assert double(4) == 8


async def test_a_name_and_a_description_can_be_given() -> None:
    @tool(name="sum-up", description="  Add up.\n    Carefully.  ")
    async def add(a: int) -> int:
        """Not this."""
        return a

    assert add.name == "sum-up"
    assert add.description == "Add up.\nCarefully."


def test_a_function_without_a_docstring_is_described_by_its_name() -> None:
    @tool
    async def fetch_the_post() -> None: ...

    assert fetch_the_post.description == "Fetch the post."


async def test_a_plain_function_runs_too() -> None:
    @tool
    def shout(word: str) -> str:
        return word.upper()

    assert await shout.run('{"word": "hey"}') == Done("HEY")


@pytest.mark.parametrize(("count", "result"), [(3, 2), (1, 0), (0, None)])
async def test_the_last_value_of_an_async_generator_is_the_result(count: int, result: int | None) -> None:
    @tool
    async def steps(n: int) -> AsyncIterator[int]:
        for step in range(n):
            yield step

    assert await steps.run({"n": count}) == Done(result)


@pytest.mark.parametrize(("count", "result"), [(3, 2), (1, 0), (0, None)])
async def test_the_last_value_of_a_generator_is_the_result(count: int, result: int | None) -> None:
    @tool
    def steps(n: int) -> Iterator[int]:
        yield from range(n)

    assert await steps.run({"n": count}) == Done(result)


async def test_an_object_that_can_be_called_is_a_tool() -> None:
    class Adder:
        """Adds to its base."""

        def __init__(self, base: int) -> None:
            self.base = base

        async def __call__(self, x: "int") -> int:
            return self.base + x

    add = tool(Adder(3))
    plus = tool(name="plus")(Adder(4))

    assert (add.name, add.description, plus.name) == ("Adder", "Adds to its base.", "plus")
    assert list(add.schema["properties"]) == ["x"]
    assert await add.run({"x": 1}) == Done(4)
    assert await plus.run({"x": 1}) == Done(5)


async def test_a_partial_function_is_a_tool_of_what_is_left() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    more = tool(name="more")(functools.partial(add, 40))

    assert list(more.schema["properties"]) == ["b"]
    assert await more.run({"b": 2}) == Done(42)


async def test_a_decorated_function_keeps_the_parameters_of_the_wrapped_one() -> None:
    def loud(function: Any) -> Any:
        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> str:
            return f"{await function(*args, **kwargs)}!"

        return run

    @tool
    @loud
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    assert list(greet.schema["properties"]) == ["name"]
    assert await greet.run({"name": "Ann"}) == Done("Hello Ann!")


# Methods


class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance

    @tool
    async def pay(self, amount: int) -> int:
        """Pay in."""
        return self.balance + amount

    @tool(name="take-out", effects={"write"})
    def withdraw(self, amount: int) -> int:
        return self.balance - amount

    @staticmethod
    @tool
    def currency(code: str) -> str:
        return code.upper()

    @classmethod
    @tool
    def kind(cls, suffix: str) -> str:
        return cls.__name__ + suffix


async def test_a_method_is_bound_to_its_instance() -> None:
    rich, poor = Account(100), Account(1)

    assert isinstance(rich.pay, Tool)
    assert await rich.pay.run({"amount": 5}) == Done(105)
    assert await poor.pay.run({"amount": 5}) == Done(6)
    assert await rich.pay(7) == 107


async def test_a_methods_schema_lacks_self_and_its_options_stay() -> None:
    bound = Account(3).withdraw

    assert bound.schema["properties"] == {"amount": {"type": "integer"}}
    assert (bound.name, bound.effects) == ("take-out", {"write"})
    assert await bound.run({"amount": 1}) == Done(2)


def test_on_the_class_a_method_is_the_unbound_tool() -> None:
    assert isinstance(Account.withdraw, Tool)
    assert Account.withdraw(Account(5), 1) == 4


async def test_static_and_class_methods_are_tools() -> None:
    assert await Account(0).currency.run({"code": "eur"}) == Done("EUR")
    async with Runtime(Account(0)) as runtime:
        assert await runtime.call("currency", {"code": "eur"}) == Done("EUR")
        assert await runtime.call("kind", {"suffix": "!"}) == Done("Account!")


# Classes


async def test_a_model_class_has_its_fields_as_parameters_and_its_call_as_work() -> None:
    @tool
    class Weather(BaseModel):
        """The weather in a city."""

        city: str = Field(description="Its English name.")
        days: int = 1

        async def __call__(self, ctx: Context) -> list[Any]:
            return [self.city, self.days, isinstance(ctx, Context)]

    assert (Weather.name, Weather.description) == ("Weather", "The weather in a city.")
    assert Weather.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its English name."},
            "days": {"type": "integer", "default": 1},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert await Weather.run('{"city": "Rome"}') == Done(["Rome", 1, True])


async def test_a_dataclass_with_run_is_a_tool() -> None:
    @tool(name="total")
    @dataclasses.dataclass
    class Total:
        start: int
        more: list[int] = dataclasses.field(default_factory=list)

        def run(self) -> int:
            return self.start + sum(self.more)

    assert Total.description == "Total."
    assert await Total.run({"start": 1, "more": [2, "3"]}) == Done(6)
    assert (await Total.run({"start": 1, "extra": 2})).code == "invalid_arguments"


# Parameters


async def test_a_model_as_a_parameter_arrives_as_a_model() -> None:
    @tool
    async def shelve(book: Book, count: int = 1) -> list[Any]:
        return [type(book), book.title, count]

    checked = shelve.validate_arguments({"book": {"title": "Emma"}})

    assert checked == {"book": Book(title="Emma")}
    assert shelve.schema["$defs"]["Book"]["required"] == ["title"]


async def test_a_model_can_describe_all_parameters_and_be_taken_whole() -> None:
    @tool(parameters=Book)
    async def shelve(book: Book) -> str:
        return f"{type(book).__name__} {book.title} {book.pages}"

    assert shelve.schema["required"] == ["title"]
    assert await shelve.run({"title": "Emma"}) == Done("Book Emma 10")


async def test_a_models_fields_can_be_taken_by_name() -> None:
    @tool(parameters=Book)
    async def shelve(title: str, pages: int) -> str:
        return f"{title} {pages}"

    @tool(parameters=Book)
    async def pile(**fields: Any) -> Any:
        return fields

    assert await shelve.run({"title": "Emma"}) == Done("Emma 10")
    assert await pile.run({"title": "Emma"}) == Done({"title": "Emma", "pages": 10})


async def test_the_schema_has_the_aliases_of_a_model_and_the_handler_gets_field_names() -> None:
    class Query(BaseModel):
        text: str = Field(alias="search-for")

    @tool(parameters=Query)
    async def by_name(text: str) -> str:
        return text

    @tool(parameters=Query)
    async def whole(query: Query) -> str:
        return query.text

    assert list(by_name.schema["properties"]) == ["search-for"]
    assert await by_name.run({"search-for": "x"}) == Done("x")
    assert await whole.run({"search-for": "x"}) == Done("x")


async def test_a_dataclass_can_describe_the_parameters() -> None:
    @tool(parameters=Point)
    async def draw(point: Point) -> int:
        return point.x + point.y

    @tool(parameters=Point)
    async def plot(x: int, y: int) -> int:
        return x + y

    assert await draw.run({"x": "1"}) == Done(3)
    assert await plot.run({"x": 1, "y": 5}) == Done(6)


@pytest.mark.parametrize(
    ("kind", "required", "good", "bad"),
    [
        (Trip, ["to"], {"to": "Rome"}, {"days": 1}),
        (Trip, ["to"], {"to": "Rome", "days": 3}, {"to": "Rome", "until": 1}),
        (Stay, ["town"], {"town": "Rome"}, {"nights": 1}),
        (Stay, ["town"], {"town": "Rome", "nights": 2}, {"town": "Rome", "nights": 0}),
    ],
)
async def test_a_typed_dict_can_describe_the_parameters(
    kind: type, required: list[str], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    @tool(parameters=kind)
    async def plan(trip: Any) -> Any:
        return trip

    assert plan.schema["required"] == required
    assert plan.schema["additionalProperties"] is False
    assert await plan.run(good) == Done(good)
    assert (await plan.run(bad)).code == "invalid_arguments"


async def test_a_raw_schema_gives_keywords_one_mapping_or_names() -> None:
    @tool(parameters=CITY)
    async def keywords(**values: Any) -> Any:
        return values

    @tool(parameters=CITY)
    async def mapping(args: dict[str, Any], ctx: Context) -> Any:
        return args

    @tool(parameters=CITY)
    def names(city: str, unit: str = "C") -> Any:
        return city + unit

    assert await keywords.run({"city": "Rome"}) == Done({"city": "Rome"})
    assert await mapping.run({"city": "Rome"}) == Done({"city": "Rome"})
    assert await names.run({"city": "Rome"}) == Done("RomeC")


async def test_a_raw_schema_and_a_description_make_a_tool_of_any_function() -> None:
    async def handler(city: str) -> str:
        return city

    weather = tool(name="weather", description="The weather.", parameters=CITY)(handler)

    assert (weather.name, weather.description, weather.schema) == ("weather", "The weather.", CITY)
    assert (await weather.run({})).code == "invalid_arguments"


async def test_a_handler_by_name_is_only_run_with_what_it_can_take() -> None:
    @tool(parameters={"type": "object", "properties": {"city": {"type": "string"}, "day": {"type": "string"}}})
    async def weather(city: str, day: str = "today") -> str:
        return f"{city} {day}"

    assert await weather.run({"city": "Rome"}) == Done("Rome today")
    for wrong in ({"day": "today"}, {"city": "Rome", "mood": "sunny"}):
        outcome = await weather.run(wrong)
        assert (outcome.code, outcome.executed) == ("invalid_arguments", False)


def test_annotations_and_fields_describe_parameters_before_the_docstring_does() -> None:
    @tool
    async def search(
        words: Annotated[str, Field(description="From the annotation.")],
        limit: int = Field(5, description="From the field.", ge=1),
        mode: Literal["all", "any"] = "all",
    ) -> None:
        """Search.

        Args:
            words: From the docstring.
            limit: From the docstring.
            mode: From the docstring.
        """

    assert search.description == "Search."
    assert search.schema["properties"] == {
        "words": {"type": "string", "description": "From the annotation."},
        "limit": {"type": "integer", "description": "From the field.", "default": 5, "minimum": 1},
        "mode": {"type": "string", "enum": ["all", "any"], "default": "all", "description": "From the docstring."},
    }
    assert search.schema["required"] == ["words"]


async def test_a_fields_default_is_used_and_a_factory_makes_a_new_one_each_time() -> None:
    @tool
    async def collect(
        item: int = Field(7),
        into: list[int] = Field(default_factory=list),  # noqa: B008  # as pydantic's users write it
    ) -> list[int]:
        into.append(item)
        return into

    assert await collect.run() == Done([7])
    assert await collect.run({"item": 8}) == Done([8])
    assert "required" not in collect.schema


async def test_an_annotated_default_is_used() -> None:
    @tool
    async def count(up_to: Annotated[int, Field(default=3)]) -> int:
        return up_to

    assert await count.run() == Done(3)


async def test_the_schema_has_the_alias() -> None:
    @tool
    async def fetch(
        kind: Annotated[str, Field(alias="type")], limit: int = Field(alias="max-items", default=2)
    ) -> list[Any]:
        return [kind, limit]

    assert list(fetch.schema["properties"]) == ["type", "max-items"]
    assert await fetch.run({"type": "a"}) == Done(["a", 2])
    assert await fetch.run('{"type": "a", "max-items": 3}') == Done(["a", 3])
    assert (await fetch.run({"kind": "a"})).code == "invalid_arguments"


async def test_further_keywords_make_the_schema_open() -> None:
    @tool
    async def tag(name: str, **labels: Any) -> Any:
        return [name, labels]

    assert tag.schema["additionalProperties"] is True
    assert await tag.run({"name": "x", "colour": "red"}) == Done(["x", {"colour": "red"}])


# Work that is done elsewhere


async def test_a_client_tool_answers_at_once_with_its_default() -> None:
    shown = tool.client("show_map", "Show a map.", parameters=Book)
    given = tool.client("beep", "Beep.", default={"heard": True})

    assert (shown.kind, shown.presentation.intent, shown.visible) == ("client", "render", True)
    assert await shown.run({"title": "x"}) == Done("[show_map rendered on client]")
    assert await given.run() == Done({"heard": True})
    assert (await shown.run({})).code == "invalid_arguments"


async def test_a_client_tool_that_needs_an_answer_is_pending() -> None:
    later = tool.client("confirm", "Confirm.", reply="later", display={"customUI": "confirm"})
    wait = tool.client("choose", "Choose.", reply="wait", timeout="1m")

    match await later.run():
        case Pending(waiting_for="result", request=request, reply_timeout=patience):
            assert (request, patience) == ({"customUI": "confirm"}, None)
        case other:
            pytest.fail(f"{other}")
    assert (await wait.run()).reply_timeout == 60.0


async def test_an_external_tool_is_pending() -> None:
    batch = tool.external("run_batch", "Start a batch job.", parameters={"type": "object"})

    assert batch.kind == "external"
    assert isinstance(await batch.run({"any": 1}), Pending)


async def test_a_hosted_tool_is_for_the_models_provider_to_run() -> None:
    search = tool.hosted("web_search", options={"openai": {"type": "web_search"}})

    assert (search.kind, search.visible) == ("hosted", False)
    assert search.presentation.provider_options == {"openai": {"type": "web_search"}}
    with pytest.raises(DefinitionError, match="through a Runtime"):
        await search.run()
    with pytest.raises(TypeError, match=r"runtime\.call"):
        search()


async def test_a_lazy_tool_is_made_once_when_the_runtime_starts() -> None:
    made = []

    async def slow() -> Any:
        made.append("slow")
        return tool(name="other")(lambda: "slow")

    def plain() -> Any:
        made.append("plain")
        return lambda x: x

    async with Runtime(tool.lazy("one", slow), tool.lazy("two", plain)) as runtime:
        assert made == ["slow", "plain"]
        assert await runtime.call("one") == Done("slow")
        assert await runtime.call("two", {"x": 2}) == Done(2)
        assert made == ["slow", "plain"]


async def test_a_lazy_tool_whose_factory_gives_no_tool_is_a_mistake() -> None:
    with pytest.raises(DefinitionError, match=r"test_define\.py:\d+: The factory of odd returned int\."):
        await tool.lazy("odd", lambda: 3).resolve()


# Descriptions from files


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "tool.txt"
    path.write_text("\n  Work in ${workspace}, from ${directory} (${cwd}); ${other} costs $5.\n\n")
    return path


def test_a_text_file_describes_a_tool(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_WORKSPACE_ROOT", raising=False)
    monkeypatch.chdir(text.parent)
    here = text.parent

    assert _described(text) == f"Work in {here}, from {here} ({here}); ${{other}} costs $5."


def test_the_workspace_may_be_named_by_the_environment(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_WORKSPACE_ROOT", "/somewhere/else")

    assert _described(text).startswith("Work in /somewhere/else, from ")


def test_a_file_is_looked_for_beside_the_tool() -> None:
    assert inspect.cleandoc(__doc__ or "") in _described(Path(Path(__file__).name))


def test_a_missing_file_falls_back_to_the_docstring_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "surehand"):
        assert _described(tmp_path / "missing.txt") == "From the docstring."

    assert "Cannot read the description of work" in caplog.text


def _described(path: Path) -> str:
    @tool(description=path)
    async def work() -> None:
        """From the docstring."""

    return work.description


def test_with_description_returns_a_changed_copy() -> None:
    @tool
    async def work() -> None:
        """One."""

    assert work.with_description("Two.").description == "Two."
    assert work.description == "One."


def test_evolve_returns_a_changed_copy() -> None:
    @tool
    async def work() -> None: ...

    assert work.evolve(name="toil").name == "toil"
    assert repr(work) == "<Tool work (function)>"


# Facets


def _with(**options: Any) -> Tool[..., Any]:
    @tool(**options)
    async def work() -> None: ...

    return work


@pytest.mark.parametrize(
    ("options", "repeatable"),
    [
        ({}, False),
        ({"effects": {"read"}}, True),
        ({"effects": {"read", "network"}}, False),
        ({"effects": ["write"]}, False),
        ({"effects": ["write"], "repeatable": True}, True),
        ({"effects": ["read"], "repeatable": False}, False),
    ],
)
def test_only_what_is_declared_to_read_is_repeatable(options: dict[str, Any], repeatable: bool) -> None:
    assert _with(**options).repeatable is repeatable


def test_undeclared_effects_count_as_reading_for_policy_alone() -> None:
    assert _with().effects == frozenset()
    assert _with().safety.required_effects == {"read"}
    assert _with(effects=["write"]).safety.required_effects == {"write"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"effects": {"red"}}, "Unknown effects: red."),
        ({"optional_effects": {"red"}}, "Unknown effects: red."),
        ({"cache": 5, "effects": {"write"}}, "A tool that declares write cannot be cached."),
        ({"audience": "robots"}, "Unknown audience 'robots'."),
        ({"intent": "please"}, "Unknown intent 'please'."),
        ({"retries": -1}, "`retries` must not be negative, got -1."),
        ({"timeout": 0}, "`timeout` must be above zero, got 0."),
        ({"timeout": "soon"}, "'soon' is not a duration."),
        ({"cache": "forever"}, "'forever' is not a duration."),
    ],
)
def test_a_facet_that_can_never_work_is_a_mistake(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        _with(**options)

    assert caught.value.problem == problem
    assert caught.value.fix
    assert Path(__file__).name in caught.value.where


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"timeout": "5 sec"}, "write 30, '30s', '5m' or 'off'."),
        ({"cache": "forever"}, "write 30, '30s', '5m' or 'off'."),
        ({"max_bytes": "much"}, "write 100_000, '100kB' or '1MB'."),
    ],
)
def test_the_fix_for_a_duration_names_durations_and_that_for_a_size_names_sizes(options, fix) -> None:
    with pytest.raises(DefinitionError) as caught:
        _with(**options)

    assert caught.value.fix == fix


def test_durations_may_have_units() -> None:
    assert _with(timeout="30s").limits.timeout == 30.0
    assert _with(timeout=0.5).limits.timeout == 0.5
    assert _with(timeout=lambda args: args["t"]).limits.timeout({"t": 9}) == 9
    assert _with(cache="5m").limits.cache == Cache(300.0)
    assert _with(cache="off").limits.cache == Cache(0.0)
    assert _with(cache=Cache(9, shared=True)).limits.cache == Cache(9, shared=True)


def test_limits_and_presentation_are_stored_on_the_tool() -> None:
    work = _with(
        retries=3, queue="bank", max_bytes=9, category="data", audience="user", aliases=["w", "do"], intent="action",
        display={"icon": "x"}, examples=[{"a": 1}], provider_options={"openai": {}},
    )  # fmt: skip

    assert (work.limits.retries, work.limits.queue, work.limits.max_bytes) == (3, "bank", 9)
    assert (work.category, work.audience, work.aliases, work.presentation.intent) == (
        "data",
        "user",
        ("w", "do"),
        "action",
    )
    assert (work.presentation.display, work.presentation.examples) == ({"icon": "x"}, ({"a": 1},))
    assert work.presentation.provider_options == {"openai": {}}


@pytest.mark.parametrize("option", [{"requires": "login"}, {"version": "2"}])
def test_an_option_that_nothing_acts_on_yet_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=f"`{next(iter(option))}` cannot be used yet: .* Fix: remove it."):
        _with(**option)


def test_middleware_and_lifespan_are_stored_on_the_tool() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield

    async def middleware(invocation: Any, proceed: Any) -> Any:
        return await proceed(invocation)

    def ask(args: dict[str, Any], ctx: Context) -> bool:
        return True

    work = _with(
        lifespan=lifespan, middleware=[middleware], confirm=ask,
        confirm_message="Sure?", preview=ask, verify=ask,
    )  # fmt: skip

    assert (work.lifecycle.lifespan, work.lifecycle.middleware) == (lifespan, (middleware,))
    assert (work.safety.confirm, work.safety.confirm_message) == (ask, "Sure?")
    assert (work.safety.preview, work.safety.verify) == (ask, ask)


def test_a_tool_shows_in_the_space_unless_its_kind_or_its_definition_says_otherwise() -> None:
    assert _with().visible is True
    assert _with(visible=False).visible is False
    assert tool.client("ask", "Ask.").visible is True
    assert tool.external("job", "Job.").visible is True
    assert tool.hosted("search", options={}).visible is False
    assert tool.hosted("search", options={}, visible=True).visible is True


def test_the_definition_changes_with_what_an_approval_depends_on() -> None:
    one, same = _with(description="A."), _with(description="A.")
    others = [_with(description="B."), _with(description="A.", effects=["write"])]

    assert one.definition_digest == same.definition_digest
    assert len({one.definition_digest, *(other.definition_digest for other in others)}) == 3


async def test_arguments_that_are_no_object_are_refused() -> None:
    work = _with()

    for nothing in (None, "", "  ", {}, "{}", b"{}"):
        assert await work.run(nothing) == Done(None)
    for wrong in ("[1]", "3", "nonsense", [1], 3):
        outcome = await work.run(wrong)
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.executed) == ("invalid_arguments", False)


def test_one_string_stands_for_a_list_of_one() -> None:
    @tool(effects="read", aliases="look")
    async def peek() -> None: ...

    assert peek.effects == {"read"}
    assert peek.aliases == ("look",)
