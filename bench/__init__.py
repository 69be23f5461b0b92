"""Benchmarks of single parts: where the time of a step goes, apart from the service."""
