"""To try on: data sets as arrays."""
