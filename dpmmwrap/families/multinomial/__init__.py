"""Rows of counts: multinomial distributions with a Dirichlet prior."""
