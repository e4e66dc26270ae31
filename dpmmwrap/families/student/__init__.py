"""Student-t clusters: Gaussian clusters in which each point has a scale."""
