"""Tag sequences: each word has one tag; spans and semantic roles are schemes of tags."""
