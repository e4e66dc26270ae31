"""What Gaussian families share: the default prior, which is learned, and how it begins."""
