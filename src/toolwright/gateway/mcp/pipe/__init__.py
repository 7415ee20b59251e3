"""Pipe: serving over stdin and stdout, message by message, with every wait bounded."""
