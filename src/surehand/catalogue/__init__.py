"""The catalogue of tools: their names, how they are found, searched and described to models."""
