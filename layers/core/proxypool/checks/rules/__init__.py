"""Pure rules: from the result of a check to a status, a score and the time of the next check."""
