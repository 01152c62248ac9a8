"""What a reader sees of a release: plots and documents, made from public objects only."""
