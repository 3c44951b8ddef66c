"""What any part of the package may use: options, messages, files, noise, states of nets, versions of libraries."""
