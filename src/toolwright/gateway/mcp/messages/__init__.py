"""What is left of the codec of `web/`, which is replaced by `toolwright.jsonrpc`."""
