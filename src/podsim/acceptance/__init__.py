"""Measurements of a machine compared with predictions and specifications."""
