"""What a tool, a call and an outcome are. No I/O happens here."""
