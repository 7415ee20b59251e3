"""A harness that tries to leave a workspace, with thousands of unusual paths and with races."""
