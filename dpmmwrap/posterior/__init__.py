"""From draws to answers: averages, a representative partition, credible balls, groups, diagnostics."""
