"""Code shared by families whose statistics are sums of features."""
