"""Rows of event counts: independent Poisson counts per column, with Gamma priors."""
