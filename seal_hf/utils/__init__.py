"""Tools for every part of the package: options, messages, files, noise, states of nets, versions of libraries."""
