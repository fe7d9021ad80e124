"""The serverless proxy pool."""
