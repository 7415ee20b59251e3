"""Tasks: calls that go on without their caller, as the tasks extension of the protocol has it."""
