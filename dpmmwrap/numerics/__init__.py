"""What compiled loops share: special functions, random variates, k-means cells, the cache of compiled code."""
