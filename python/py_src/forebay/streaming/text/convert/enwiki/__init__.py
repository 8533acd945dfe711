"""English Wikipedia, tokenised and masked for BERT."""
