"""Hypothesis strategies for everything that a case is made of.

Their only import name is `kvzero.strategies`, a link to the folder at the top level.
"""

from kvzero.strategies.block_lists import block_lists
from kvzero.strategies.calls import calls
from kvzero.strategies.cases import cases
from kvzero.strategies.counts import counts
from kvzero.strategies.layouts import layouts, packings, runs
from kvzero.strategies.pages import pages, strides
from kvzero.strategies.placements import placements
from kvzero.strategies.views import view_layouts, views

__all__ = [
    "block_lists",
    "calls",
    "cases",
    "counts",
    "layouts",
    "packings",
    "pages",
    "placements",
    "runs",
    "strides",
    "view_layouts",
    "views",
]
