"""Compare losses honestly: the methods with their search spaces, the search, the runs on disk, the table.

Every method gets the same number of trials on validation, the same seeds, the same decoders, and is tested against the
best baseline on the same test rows. What differs between kinds of output, and their methods, are in the
`compare.py` of each folder of `tasks/`. `program.py` is the command `seal-hf compare`.
"""
