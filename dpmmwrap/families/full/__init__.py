"""Gaussians with full covariances and a normal-inverse-Wishart prior."""
