"""Data that keep coming: a batch at a time, clusters that keep their names, rows whose clusters are known."""
