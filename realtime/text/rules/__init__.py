"""Readings of written forms: each module is an ordered list of (pattern, reading) pairs.

A reading gets the match and gives the words to say, or `None` to leave the match to a later rule.
Patterns are anchored and use bounded or possessive repetition, so that one pass is linear.
"""
