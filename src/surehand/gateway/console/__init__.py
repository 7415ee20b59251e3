"""The console: the web page at `/` of a gateway, where people answer calls that wait and see what happens."""
