"""Rows of counts: multinomial, with a Dirichlet prior."""
