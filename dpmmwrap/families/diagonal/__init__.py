"""Gaussians with one variance per feature, or one for all, and normal-inverse-gamma priors."""
