"""Observing a runtime: an operation tree, OpenTelemetry spans, Prometheus metrics. All of them only listen."""

from surehand.observe.metrics import metrics
from surehand.observe.node import Node, Total
from surehand.observe.spans import telemetry
from surehand.observe.tree import Tree, tree, watch

__all__ = ["Node", "Total", "Tree", "metrics", "telemetry", "tree", "watch"]
