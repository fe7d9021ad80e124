"""Runtime of the Lambda functions: handler classes, logs and results of runs, retries of messages."""
