"""Gaussian clusters with full, diagonal or spherical covariances, which are implemented in `full` and `diagonal`."""
