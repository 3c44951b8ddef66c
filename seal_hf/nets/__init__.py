"""Networks: feature networks for features and text, the FCN for masks, the BiLSTM for words; features kept on disk."""
