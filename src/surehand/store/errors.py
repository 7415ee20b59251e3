"""Errors: what can go wrong with a store."""


class StoreError(Exception):
    """The store could not do what it was asked; nothing of that write is kept."""


class UnexpectedRowCount(StoreError):
    """A statement changed another number of rows than the write relies on: somebody else was first."""


class UnstorableValue(StoreError):
    """A value that not every database can hold."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or its disk is full or broken. A write in doubt may have been kept."""
