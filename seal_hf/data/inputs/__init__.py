"""What a saved task-net predicts and is evaluated on: rows of files and Hub ids, read a part at a time; and the files
that predictions are written to."""
