"""Probing one proxy: the stages in order, each with its limits of time."""
