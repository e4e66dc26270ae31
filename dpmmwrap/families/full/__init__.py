"""Gaussians with full covariances: a normal-inverse-Wishart prior."""
