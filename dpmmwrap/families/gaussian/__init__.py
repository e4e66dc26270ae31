"""Gaussian clusters: full, diagonal or spherical covariances, each a folder or file beside this one."""
