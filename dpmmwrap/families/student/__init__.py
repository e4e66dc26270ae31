"""Student-t clusters with full covariances: Gaussian clusters in which each point has a scale."""
