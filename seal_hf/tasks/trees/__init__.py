"""Constituency trees, as tags with brackets."""
