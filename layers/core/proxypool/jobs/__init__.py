"""The ETL worker: every page once, through the right proxy, replayable."""
