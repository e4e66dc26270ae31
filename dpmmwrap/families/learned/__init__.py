"""The default prior of numeric columns: its initial value and how it is learned."""
