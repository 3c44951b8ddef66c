"""What programs share: recipes under command-line flags, flags that nothing reads, how a program ends."""
