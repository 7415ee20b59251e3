"""Messages of clients, over a pipe or over HTTP: how they are read, and how large and how many they may be."""
