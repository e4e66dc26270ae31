"""Rows of event counts: independent Poisson counts in every column, with Gamma priors."""
