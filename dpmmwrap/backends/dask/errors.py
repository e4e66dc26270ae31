"""Errors of clusters of machines."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The scheduler or workers were lost, or differ in their versions."""
