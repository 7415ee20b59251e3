"""The errors of a store."""


class StoreError(Exception):
    """The store could not carry out a request; nothing of a failed write is stored."""


class UnexpectedRowCount(StoreError):
    """A statement changed another number of rows than the write relies on: another process was first."""


class UnstorableValue(StoreError):
    """A value that one of the two databases cannot store."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or its disk is full or broken. A write in doubt may have been stored."""
