"""Categorical columns: Dirichlet priors."""
