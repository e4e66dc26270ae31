"""Independent answers that draws are compared with, and ways to break a move on purpose: for tests and scripts."""
