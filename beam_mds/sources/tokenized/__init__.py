"""What TokenizeText and ReadTokens are made of: texts -> documents of ids -> samples."""
