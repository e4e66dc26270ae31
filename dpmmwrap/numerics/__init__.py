"""Shared numerical code: special functions, random variates, k-means cells, and the cache of compiled code."""
