"""Data sets, measures, experiments and their pictures."""
