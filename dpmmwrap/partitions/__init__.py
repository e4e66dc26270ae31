"""Priors over partitions."""
