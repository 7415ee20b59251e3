"""Toolsets on the command line: globs of names, or the names of toolsets that tools say they belong to."""

from __future__ import annotations

import click

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing

toolset_option = click.option(
    "--toolset",
    "toolsets",
    multiple=True,
    metavar="NAME",
    help="Only tools of this toolset, or whose names match a glob, as in 'git__*'.",
)


def listings_in_toolset(catalogue: Catalogue, name: str) -> list[Listing]:
    """The tools of the toolset, and those whose names match."""
    try:
        named = catalogue.toolset(name)
    except KeyError:  # then it can only be a glob
        named = []
    return list(dict.fromkeys([*named, *catalogue.select(name)]))
