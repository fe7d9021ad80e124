"""Checks: whether a proxy works, how anonymous it is and whether it alters content; and the resulting updates of its
record.
"""
