"""What families share whose statistics are sums of features."""
