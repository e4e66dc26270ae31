"""Categorical columns with Dirichlet priors."""
