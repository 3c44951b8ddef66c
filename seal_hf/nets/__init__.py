"""Networks: encoders for feature data and text, the FCN for masks, the BiLSTM for words; a feature cache on disk."""
