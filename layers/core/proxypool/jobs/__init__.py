"""The ETL worker: fetches each page of a job once, through a leased proxy; jobs can be replayed."""
