"""The kinds of output, a folder each: all that differs between label sets, tags, trees, masks and rewarded rows."""
