"""Settings of a deployment: their table, overrides, validation, and the time limits of the template."""
