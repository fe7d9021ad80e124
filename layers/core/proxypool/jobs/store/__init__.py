"""Where jobs and their results are stored."""
