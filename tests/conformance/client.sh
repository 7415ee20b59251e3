#!/usr/bin/env bash
# What the suite starts as the client under test: hands the scenario to the process that runs them all, and ends as it says.
exec 3<>"/dev/tcp/127.0.0.1/$SUREHAND_CONFORMANCE_PORT"
printf '%s\n' "$MCP_CONFORMANCE_SCENARIO" "$MCP_CONFORMANCE_PROTOCOL_VERSION" "${MCP_CONFORMANCE_CONTEXT:-null}" "$1" >&3
read -r code <&3
cat <&3
exit "${code:-70}"
