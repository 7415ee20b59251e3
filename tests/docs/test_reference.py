"""The reference says what the code does: each list in it is held against the one in the code."""

import inspect
import re
from ast import literal_eval
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import surehand.observe
from surehand import (
    Approval,
    Call,
    Catalogue,
    Context,
    Done,
    Failed,
    Pending,
    Policy,
    Provider,
    Retention,
    Runtime,
    Store,
    protocols,
    testing,
)
from surehand.catalogue import describe, wrap
from surehand.catalogue.listing import Listing
from surehand.config.rest_section import REST_TOOL_KEYS
from surehand.core import content, errors, event_formats, events, provider_abilities
from surehand.core.facets import CATEGORIES, EFFECTS
from surehand.core.outcome import CallMeta
from surehand.core.tool_options import ToolOptions
from surehand.runtime import policy
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.queues import QueueStatus
from surehand.runtime.pending.pending_call import PendingCall
from surehand.runtime.pipeline.stages import STAGES
from surehand.runtime.scope import Scope
from surehand.runtime.stats import Stats
from surehand.store.store import TABLES
from surehand.store.tables import audit
from surehand.store.tables.audit import AuditVerification
from surehand.store.tables.grants import Grant
from surehand.store.tables.ledger import LedgerState
from surehand.testing import ManualClock

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in DOCS.glob("reference/*.md")}
CODE = re.compile(r"`([^`\n]+)`")


def words(page: str) -> set[str]:
    """Every word that stands in code quotes on a page."""
    return {word for quoted in CODE.findall(PAGES[page]) for word in re.findall(r"\w+", quoted)}


def rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the tables whose first column is called so, without its code quotes."""
    found, wanted = [], False
    for line in PAGES[page].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            wanted = False
        elif cells[0] == heading:
            wanted = True
        elif wanted and set(line) - set("|- "):
            found.append([cells[0].strip("`"), *cells[1:]])
    return found


def first_column(page: str, heading: str) -> list[str]:
    return [row[0] for row in rows(page, heading)]


def missing(names: Iterable[str], page: str) -> list[str]:
    return sorted(set(names) - words(page))


def public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]  # type: ignore[arg-type]


def test_every_public_name_has_its_place():
    elsewhere = set().union(*(words(page) for page in PAGES if page not in ("names", "api")))

    assert sorted(set(surehand.__all__) - elsewhere) == []
    assert sorted(first_column("names", "name")) == sorted(surehand.__all__)


def test_examples_import_public_names_only():
    """What only the reference of the inside shows, such as the list of stages, is imported from where it is."""
    inside = {"core.event_formats", "runtime.pipeline.stages", "runtime.pipeline.pipeline"}
    pages = [DOCS.parent / "README.md", DOCS.parent / "examples" / "tour.py", *DOCS.glob("**/*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)

    assert set(re.findall(r"from surehand\.((?:core|runtime|catalogue)[\w.]*) import", text)) <= inside


def test_every_way_to_define_a_tool_without_a_function_is_in_its_table():
    told = {
        re.match(r"`tool\.(\w+)\(", row)[1]: row
        for row in re.findall(r"^\| (`tool\..*)$", PAGES["define"], re.MULTILINE)
    }

    assert sorted(told) == public(type(surehand.tool))
    for name, row in told.items():
        taken = set(parameters(getattr(surehand.tool, name))) - {"options", "facets"}
        assert taken <= set(re.findall(r"\w+", row)), name


def test_every_facet_of_a_tool_is_in_a_table():
    given = ["name", "description", "parameters"]

    assert sorted(first_column("define", "facet")) == sorted([*given, *ToolOptions.__annotations__])


def test_the_words_of_the_facets_are_the_codes():
    assert missing([*EFFECTS, *CATEGORIES], "define") == []


@pytest.mark.parametrize("cls", [Context, surehand.Tool])
def test_what_a_definition_deals_with_is_described(cls):
    own = set(public(cls)) - {
        "function",
        "handler",
        "rebind",
        "compile",
        "description_source",
        "safety",
        "limits",
        "presentation",
        "lifecycle",
    }

    assert missing(own, "define") == []


def test_every_member_of_a_provider_is_in_a_table():
    told = [re.match(r"(?:async )?(\w+)", row)[1] for row in first_column("providers", "member")]

    assert sorted([*told, *first_column("providers", "setting")]) == sorted(public(Provider))
    assert first_column("providers", "trait") == [field.name for field in fields(protocols.ProviderTraits)]


def test_every_protocol_is_in_its_table_with_its_methods():
    told = {row[0]: re.findall(r"`(?:async )?(\w+)\(([^)]*)\)`:", row[1]) for row in rows("providers", "protocol")}
    defined = {
        cls.__name__: [(name, ", ".join(parameters(getattr(cls, name)))) for name in vars(cls) if name[0] != "_"]
        for cls in provider_abilities._PROTOCOLS.values()
    }

    assert told == defined


def test_every_failure_code_is_explained_in_the_order_of_the_code():
    assert first_column("call", "code") == list(get_args(errors.FailureCode))
    assert all(len(row) == 3 and all(row) for row in rows("call", "code"))


def test_every_failure_code_has_its_names_in_the_five_documents():
    assert first_column("call", "our code") == list(get_args(errors.FailureCode))


def test_every_argument_of_a_runtime_is_in_its_table():
    taken = [name for name in parameters(Runtime) if name != "sources"]

    assert sorted(first_column("call", "argument")) == sorted(taken)


def test_every_verb_of_a_scope_is_in_its_table_with_its_parameters():
    verbs = {re.match(r"(?:await )?(\w+)", row)[1]: row for row in first_column("call", "verb")}

    for_calls = {
        "active_space",
        "enter_space",
        "set_active_space",
        "find_session_tool",
        "find_value",
        "in_space",
        "runs_as_written",
        "stack_for_call",
        "stack_for_listing",
    }
    values = {name for name in verbs if isinstance(getattr(Scope, name), property)}

    assert sorted(verbs) == sorted(set(public(Scope)) - for_calls)
    for name in set(verbs) - values - {"scope"}:
        assert set(parameters(getattr(Scope, name))) <= set(re.findall(r"\w+", verbs[name])), name
    assert missing(set(public(Runtime)) - set(public(Scope)), "call") == []


def test_every_measure_is_in_its_table():
    assert first_column("call", "field") == [field.name for field in fields(CallMeta)]


@pytest.mark.parametrize("cls", [Done, Failed, Pending])
def test_every_field_of_an_outcome_is_told(cls):
    told = dict(rows("call", ""))[cls.__name__]

    assert set(parameters(cls.__init__)) <= set(re.findall(r"\w+", told))


@pytest.mark.parametrize("cls", [Call, Approval, Stats, PendingCall, QueueStatus, Grant])
def test_every_field_of_the_values_around_a_call_is_told(cls):
    assert missing((field.name for field in fields(cls) if (cls, field.name) != (Approval, "code")), "call") == []


def test_every_content_block_stands_with_its_fields():
    told = {
        name: set(re.findall(r"\w+", row[1])) for row in rows("call", "block") for name in re.findall(r"\w+", row[0])
    }

    assert list(told) == [block.__name__ for block in content.BLOCK_TYPES]
    told["File"] |= told["Image"]  # "the same, and ..."
    for block in content.BLOCK_TYPES:
        assert {field.name for field in fields(block)} <= told[block.__name__], block


def test_every_block_and_error_class_is_named():
    ours = [cls for cls in errors.ToolError.__subclasses__() if cls.__module__.startswith("surehand")]
    classes = [cls.__name__ for cls in ours if cls.__name__ != "StillPending"]

    assert missing([*(block.__name__ for block in content.BLOCK_TYPES), *classes], "call") == []


def test_the_stages_stand_in_their_order():
    assert first_column("pipeline", "stage") == [stage.__name__ for stage in STAGES]


def test_every_event_stands_with_its_fields():
    known = {cls.__name__: list(inspect.signature(cls).parameters) for cls in get_args(events.Event)}
    told = {row[0]: row[2].strip("`").split() for row in rows("events", "event")}

    assert told == known


def test_the_wire_names_are_those_of_the_code():
    lines = [line for line in event_formats.__doc__.splitlines() if line.startswith("|") and not line.startswith("|--")]
    heading, *known = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    assert "| " + " | ".join(heading) + " |" in PAGES["events"]
    assert rows("events", "our event") == known


def test_every_key_of_a_rule_is_in_its_table():
    assert sorted(first_column("policy", "key of a rule")) == sorted(field.name for field in fields(policy.Rule))
    assert missing(set(public(Policy)) - {"rules_for"}, "policy") == []
    assert missing([*EFFECTS, "allow", "ask", "deny"], "policy") == []


def test_every_method_of_the_catalogue_is_in_its_table_with_its_parameters():
    methods = {row.partition("(")[0]: row for row in first_column("catalogue", "method")}

    assert sorted(methods) == sorted(public(Catalogue))
    for name, row in methods.items():
        assert set(parameters(getattr(Catalogue, name))) <= set(re.findall(r"\w+", row)), name


def test_every_format_listing_field_and_wrapper_is_told():
    assert first_column("catalogue", "format") == list(describe._FORMATS)
    assert missing((field.name for field in fields(Listing)), "catalogue") == []
    wrappers = [name for name, value in vars(wrap).items() if getattr(value, "__module__", "") == wrap.__name__]
    functions = [name for name in wrappers if inspect.isfunction(vars(wrap)[name]) and not name.startswith("_")]
    assert missing(functions, "catalogue") == []


def test_every_wrapper_is_in_its_table_with_its_parameters():
    told = {row.partition("(")[0]: row for row in first_column("catalogue", "wrapper")}

    for name in told:
        assert set(parameters(getattr(surehand, name))) <= set(re.findall(r"\w+", told[name])), name


def test_every_default_stands_with_its_value():
    told = {name: literal_eval(value.strip("`")) for name, value, _ in rows("defaults", "name")}

    assert told == {field.name: field.default for field in fields(Defaults)}


def test_every_method_of_a_store_is_in_its_table_with_its_parameters():
    told = {re.search(r"(\w+)\(", row)[1]: row for row in first_column("store", "method")}

    assert sorted(told) == public(Store)
    for name, row in told.items():
        assert set(parameters(getattr(Store, name))) <= set(re.findall(r"\w+", row)), name


def test_what_is_kept_the_states_and_the_tables_stand_in_their_order():
    assert sorted(first_column("store", "kept")) == sorted(field.name for field in fields(Retention))
    assert first_column("store", "state") == list(get_args(LedgerState))
    assert sorted(first_column("store", "table")) == sorted(TABLES)
    assert first_column("store", "result") == [field.name for field in fields(AuditVerification)]
    assert missing(get_args(audit.AuditKind), "store") == []


def test_every_table_of_the_schema_is_told():
    folder = DOCS.parent / "src/surehand/store/sql"
    schema = "".join(path.read_text(encoding="utf-8") for path in [folder / "schema.sql", *folder.glob("migrations/*")])

    assert sorted(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", schema)) == sorted(first_column("store", "table"))


def test_everything_for_tests_is_told():
    clock = [name for name in public(ManualClock) if name in vars(ManualClock) and name != "call_later"]

    assert missing([*clock, *testing.__all__], "testing") == []


def test_everything_that_observes_is_told():
    assert missing(surehand.observe.__all__, "observe") == []


def test_every_ready_middleware_is_in_the_how_to_with_its_parameters():
    page = (DOCS / "how-to" / "write-a-middleware.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE))

    assert sorted(told) == sorted(surehand.middleware.__all__)
    for name, taken in told.items():
        assert set(parameters(getattr(surehand.middleware, name))) <= set(re.findall(r"\w+", taken)), name
    assert missing(surehand.middleware.__all__, "names") == []


LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
LINKING = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """What its headings are called in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_is_on_the_map():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    decisions = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    pages = [str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md") if page.parent.name != "decisions"]

    assert sorted(page for page in pages if page != "index.md" and f"({page})" not in index) == []
    assert "(decisions/index.md)" in index
    assert [page.name for page in DOCS.glob("decisions/0*.md") if f"({page.name})" not in decisions] == []


def test_every_key_of_a_rest_tool_in_the_file_is_in_its_table():
    told = {word for row in rows("config", "key") for word in re.findall(r"\w+", row[0])}

    assert set(REST_TOOL_KEYS) - told == {"has_complex_query_params", "query_param_names"}  # in camelCase there


def test_every_argument_of_rest_is_in_its_table():
    told = {word for row in rows("providers", "argument") for word in re.findall(r"\w+", row[0])}

    assert set(parameters(surehand.rest)) - told == set()
