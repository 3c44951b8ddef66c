"""The pages of results, one module per kind of page; `results_page.py` writes them.

A page is a string of Markdown. Its tables, and the figures in its sentences, are computed from `recipes/results/`.
"""
