"""Networks: encoders for features, words, texts and images; adapters on a frozen base; a feature cache on disk."""
