"""From probabilities of label sets to decisions, whichever model gives the probabilities. Only `fit` needs torch."""
