"""The programs, and what they share: recipes under flags, flags that nothing reads, how a program ends."""
