#!/usr/bin/env bash
# The suite starts this as the client under test: it hands the scenario to our process, and exits with its result.
exec 3<>"/dev/tcp/127.0.0.1/$SUREHAND_CONFORMANCE_PORT"
printf '%s\n' "$MCP_CONFORMANCE_SCENARIO" "$MCP_CONFORMANCE_PROTOCOL_VERSION" "${MCP_CONFORMANCE_CONTEXT:-null}" "$1" >&3
read -r code <&3
cat <&3
exit "${code:-70}"
