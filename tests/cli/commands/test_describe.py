"""`surehand describe`: a page for people, JSON for programs."""


def test_a_person_gets_a_readable_page(terminal, shop):
    screen = terminal("describe", "echo", "pay", "-t", shop, COLUMNS="80")

    screen.sees(r"echo\n  Give back what it was given\. *\n *\n  kind +function *\n  effects +read *\n")
    screen.sees(r"  aliases +say *\n  toolsets +talk *\n  parameters\n    text +string, required")
    screen.sees(r"    tags +array of string, optional")
    screen.sees(r"\npay\n  Pay somebody\. *\n")
    screen.sees(r"  effects +network, write *\n")
    screen.sees(r'    note +string, default ""')
    assert screen.ends() == 0
    assert max(map(len, screen.text.splitlines())) <= 80
    assert '"type"' not in screen.text


def test_a_tool_for_people_has_a_page_too(terminal, shop):
    screen = terminal("describe", "greet", "-t", shop)

    screen.sees(r"greet\n  Greet a person\.")
    screen.sees(r"  for +people only *\n")
    screen.sees("no parameters")
    assert screen.ends() == 0


def test_all_listed_tools_are_described_without_names(terminal, shop):
    screen = terminal("describe", "-t", shop)

    assert screen.ends() == 0
    assert "\nadd\n" in f"\n{screen.text}"
    assert "\ntell\n" not in screen.text


def test_a_pipe_gets_json(run, shop):
    ran = run("describe", "add", "-t", shop)

    assert ran.lines[0]["function"]["name"] == "add"
    assert run("describe", "add", "-t", shop, "--json").lines == ran.lines


def test_a_format_gives_json_in_a_terminal_too(terminal, shop):
    screen = terminal("describe", "add", "-t", shop, "-f", "anthropic")

    screen.sees('"input_schema": {')
    assert screen.ends() == 0
