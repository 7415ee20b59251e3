"""The runtime: public entry point, pipeline, limits, pending calls and their durability."""
