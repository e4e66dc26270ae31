"""From a table to a model: reading, columns left out, the prior, the choice of covariances."""
