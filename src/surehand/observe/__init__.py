"""Observers of a runtime: a tree of its calls, OpenTelemetry spans, Prometheus metrics. They only listen to events."""

from surehand.observe.metrics import metrics
from surehand.observe.node import Node, Total
from surehand.observe.tracing import telemetry
from surehand.observe.tree import Tree, tree, watch

__all__ = ["Node", "Total", "Tree", "metrics", "telemetry", "tree", "watch"]
