"""The default prior of numeric columns: where it begins, and how it is learned."""
