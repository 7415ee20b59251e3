"""The pipeline that every call passes: its stages, and the invocation that they share."""
