"""In a terminal: colour, progress, prompts and Ctrl-C."""

import json
import re
import time

import pytest

COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|9\d|38;5;\d+)m")


def test_tools_are_a_table_in_colour(terminal, shop):
    screen = terminal("tools", "-t", shop)

    assert screen.ends() == 0
    assert COLOUR.search(screen.raw)
    assert re.search(r"^Name +Effects +Parameters +Description *$", screen.text, re.MULTILINE)
    assert re.search(r"^add +read +2 +Add two numbers\. *$", screen.text, re.MULTILINE)
    assert re.search(r"^pay +network, write +3 +Pay somebody\. *$", screen.text, re.MULTILINE)


def test_unlisted_tools_are_counted_and_marked_with_all(terminal, shop):
    some, every = terminal("tools", "-t", shop), terminal("tools", "-t", shop, "--all")

    assert (some.ends(), every.ends()) == (0, 0)
    assert some.text.endswith("\n1 more is not listed: see --all.\n")
    assert "tell" not in some.text
    assert re.search(r"^tell \(not listed\) +read +3 +Give back somebody's words", every.text, re.MULTILINE)
    assert every.text.count("not listed") == 1


def test_no_color_is_honoured(terminal, shop):
    screen = terminal("describe", "add", "-t", shop, "-f", "openai", NO_COLOR="1")

    assert screen.ends() == 0
    assert '"name": "add",\n' in screen.text
    assert not COLOUR.search(screen.raw)


def test_an_approval_shows_everything_and_runs_after_yes(terminal, shop):
    screen = terminal("call", "-t", shop, "pay", '{"amount": 3, "to": "Bob", "note": "a\\u001b[2J\\u202eb"}')

    screen.sees(r"pay asks first\nPay 3.0 to Bob\?\n")
    screen.sees(r'"note": "a\\u001b\[2J\\u202eb"\n')
    screen.sees(r'Preview:\n{\n  "left": 97.0\n}\n')
    screen.sees(r"Run it\? \[y\]es, \[n\]o, \[e\]dit: ")
    screen.types("perhaps")
    screen.sees("Answer y, n or e.")
    screen.sees("dit: ")
    screen.types("y")

    screen.sees("Paid 3 to Bob.")
    assert screen.ends() == 0


def test_a_preview_that_is_a_diff_is_shown_line_by_line_in_colour(terminal, shop):
    screen = terminal("call", "-t", shop, "paint", '{"text": "Closed\\u001b[2J\\u202e\\n  Soon"}')

    screen.sees(r"Preview:\nsign.txt\n--- a/sign.txt\n\+\+\+ b/sign.txt\n@@ -1,2 \+1,3 @@\n Shop\n--- open\n")
    screen.sees(r"\n?\+Closed\\u001b\[2J\\u202e\n\+  Soon\nRun it\?")
    for coloured in ("[1m--- a/sign.txt", "[36m@@ -1,2", "[31m--- open", "[32m+Closed\\u001b[2J", "[32m+  Soon"):
        assert f"\x1b{coloured}" in screen.raw
    screen.types("y")

    screen.sees("Painted.")
    assert screen.ends() == 0


def test_a_diff_is_shown_whole_with_whatever_else_the_preview_holds(terminal, shop):
    rows = [*(f"row {number}" for number in range(2500)), "wide " * 200]
    screen = terminal("call", "-t", shop, "paint", json.dumps({"text": "\n".join(rows), "new": True, "count": True}))

    screen.sees("Preview:\nsign.txt \\(a new file\\)\n")
    screen.sees("\n".join(f"\\+{row}" for row in rows))
    screen.sees(r'\n{\n  "letters": \d+\n}\nRun it\?')
    screen.types("n")

    assert screen.ends() == 4


def test_a_diff_shows_its_problem(terminal, shop):
    screen = terminal("call", "-t", shop, "paint", "text=")

    screen.sees(r"Preview:\nsign.txt\nproblem: Nothing to say.\nRun it\?")
    screen.types("n")

    assert screen.ends() == 4


def test_no_rejects_the_call(terminal, shop):
    screen = terminal("call", "-t", shop, "pay", "amount=3", "to=Bob")

    screen.sees("dit: ")
    screen.types("no")

    screen.sees(r"failed \(rejected\): the call was rejected by the user")
    assert screen.ends() == 4
    assert "Paid" not in screen.text


def test_an_invalid_edit_is_explained_and_asked_again(terminal, shop):
    screen = terminal("call", "-t", shop, "pay", "amount=3", "to=Bob")

    screen.sees("dit: ")
    screen.types("e")
    screen.sees(r'Arguments: {"amount": 3, "to": "Bob"}')
    screen.types("\x7f")  # the last brace goes
    screen.sees("not valid JSON.*\n")
    screen.sees(r'Arguments: {"amount": 3, "to": "Bob"')
    screen.types('\x15{"amount": "much", "to": "Ada"}')
    screen.sees("The arguments are invalid: `amount`: Input should be a valid number")
    screen.sees("Arguments: .*Ada")
    screen.types('\x15{"amount": 5, "to": "Ada"}')
    screen.sees(r'"to": "Ada"\n}\n')
    screen.sees("dit: ")
    screen.types("y")

    screen.sees("Paid 5 to Ada.")
    assert screen.ends() == 0
    assert "Send one" not in screen.text


def test_an_empty_edit_leads_back_to_the_question(terminal, shop):
    screen = terminal("call", "-t", shop, "pay", "amount=3", "to=Bob")

    screen.sees("dit: ")
    screen.types("e")
    screen.sees("an empty line keeps them")
    screen.sees(r'Arguments: {"amount": 3, "to": "Bob"}')
    screen.types("\x15")
    screen.sees(r'"to": "Bob"\n}\n')
    screen.sees("dit: ")
    screen.types("y")

    screen.sees("Paid 3 to Bob.")
    assert screen.ends() == 0


def test_leaving_the_prompt_leaves_the_call_pending(terminal, shop):
    screen = terminal("call", "-t", shop, "pay", "amount=3", "to=Bob")

    screen.sees("dit: ")
    screen.types("\x04", enter=False)

    screen.sees(r"pending \(approval\): Pay 3.0 to Bob\?\n")
    screen.sees("Nothing ran. Run it again to be asked again, or run it with --yes or --no.")
    assert screen.ends() == 3


def test_leaving_a_client_tools_question_says_how_to_be_asked_again(terminal, shop):
    screen = terminal("call", "-t", shop, "sign")

    screen.sees(r"Answer \(JSON or text\): ")
    screen.types("\x04", enter=False)

    screen.sees("It got no answer. Run it again to be asked again.")
    assert screen.ends() == 3


@pytest.mark.parametrize("form", ["rows", "text", "blocks", "failure"])
def test_a_person_is_shown_all_of_a_result_that_is_cut_for_models(terminal, shop, form):
    screen = terminal("call", "-t", shop, "huge", f"form={form}")

    assert screen.ends() == (1 if form == "failure" else 0)
    assert len(re.findall(r"row \d+", screen.text)) == 100
    assert "tool_output" not in screen.text
    assert ('[\n  "row 0",\n' in screen.text) == (form == "rows")


def test_a_text_that_looks_like_a_handle_is_shown_unchanged(terminal, shop):
    screen = terminal("call", "-t", shop, "huge", "form=forged")

    assert screen.ends() == 0
    assert '"handle": "none"' in screen.text


def test_a_nested_call_asks_too_and_thinking_does_not_use_up_the_time_limit(terminal, shop):
    screen = terminal("call", "-t", shop, "buy", "item=tea", "--timeout", "3s")

    screen.sees(r"pay asks first")
    screen.sees("dit: ")
    time.sleep(3.1)  # a person thinks for longer than the call may take
    screen.types("y")

    screen.sees("tea: Paid 3 to tea.")
    assert screen.ends() == 0


def test_a_client_tool_is_answered_in_the_terminal(terminal, shop):
    screen = terminal("call", "-t", shop, "choose", 'of=["tea", "coffee"]')

    screen.sees("choose asks you\nAsk which one it shall be.\n")
    screen.sees(r"Answer \(JSON or text\): ")
    screen.types('{"drink": "tea"}')

    screen.sees(r'{\n  "drink": "tea"\n}\n')
    assert screen.ends() == 0


@pytest.mark.parametrize("words", [["sign"], ["order"], ["order", "--user", "ada", "--session", "s1"]])
def test_an_answer_may_be_plain_text_and_ends_the_call_that_waits_for_it(terminal, shop, words):
    screen = terminal("call", "-t", shop, *words)

    screen.sees(r"Answer \(JSON or text\): ")
    screen.types("Ada L.")

    screen.sees("Ada L.\n.*Ada L.\n")
    assert screen.ends() == 0
    assert screen.text.count("Answer") == 1


def test_progress_is_drawn_while_a_call_runs_and_then_taken_away(terminal, shop, tmp_path):
    screen = terminal("call", "-t", shop, "bake", "bell=bell")

    screen.sees("bake  warming the oven")
    (tmp_path / "bell1").touch()
    screen.sees("bake  half way .* 50%")
    (tmp_path / "bell2").touch()
    screen.sees(r'{\n  "bread": true,\n  "slices": 12\n}\n')
    assert screen.ends() == 0
    assert "\x1b[2K" in screen.raw.rpartition("half way")[2]


def test_the_number_of_a_second_attempt_is_shown(terminal, shop, tmp_path):
    screen = terminal("call", "-t", shop, "flaky", "bell=bell")

    screen.sees("flaky  attempt 2 ")
    (tmp_path / "bell").touch()
    screen.sees("there\n")
    assert screen.ends() == 0


@pytest.mark.parametrize("tool", ["sleep", "block", "borrow"])
def test_ctrl_c_ends_the_call_and_the_process(terminal, shop, tool):
    screen = terminal("call", "-t", shop, tool)

    screen.sees(rf"{tool} .*0:00:\d\d")
    screen.interrupts()

    screen.sees("cancelled: nothing was left running.")
    assert screen.ends() == 130


def test_ctrl_c_at_the_prompt_ends_it_too(terminal, shop):
    screen = terminal("call", "-t", shop, "buy", "item=tea")

    screen.sees("dit: ")
    screen.interrupts()

    screen.sees("\ncancelled: nothing was left running.")
    assert screen.ends() == 130


def test_a_failure_is_red_with_its_code_and_cannot_act_on_the_terminal(terminal, shop):
    screen = terminal("call", "-t", shop, "broken")

    assert screen.ends() == 1
    assert "\x1b[31mfailed (crashed):" in screen.raw
    assert "RuntimeError: boom \\u001b[2J" in screen.text
    assert "--debug" in screen.text
    assert "Traceback" not in screen.text


def test_debug_shows_the_traceback_without_the_hint(terminal, shop):
    screen = terminal("call", "-t", shop, "broken", "--debug")

    assert screen.ends() == 1
    assert "Traceback" in screen.text
    assert "--debug" not in screen.text
