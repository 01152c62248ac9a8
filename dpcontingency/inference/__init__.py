"""Inference on released tables; nothing here can reach confidential counts."""
