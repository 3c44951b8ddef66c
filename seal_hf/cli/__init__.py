"""The programs and their shared parts: recipes with flags over them, checks for unused flags, how a program ends."""
