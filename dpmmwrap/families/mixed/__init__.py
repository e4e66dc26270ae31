"""Tables of numeric and categorical columns."""
