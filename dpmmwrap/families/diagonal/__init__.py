"""Gaussians with a variance per feature, or one for all: normal-inverse-gamma priors."""
