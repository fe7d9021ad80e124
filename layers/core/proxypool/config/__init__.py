"""The settings of a deployment: one table, the overrides, their checks and the time limits of the template."""
