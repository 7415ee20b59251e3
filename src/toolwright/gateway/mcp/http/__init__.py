"""Web: serving over HTTP, from the socket to the library, with every wait bounded."""
