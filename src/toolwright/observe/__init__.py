"""Observing a runtime: an operation tree, OpenTelemetry spans, Prometheus metrics. All of them only listen."""

from toolwright.observe.metrics import metrics
from toolwright.observe.node import Node, Total
from toolwright.observe.telemetry import telemetry
from toolwright.observe.tree import Tree, tree, watch

__all__ = ["Node", "Total", "Tree", "metrics", "telemetry", "tree", "watch"]
