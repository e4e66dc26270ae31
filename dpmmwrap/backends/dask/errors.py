"""What can go wrong on several machines, in a sentence each."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """The scheduler or the workers are not there (any more), or are not alike."""
