"""Embedding tables of recommenders: their sizes, how often rows are read, where they lie and what lookups cost."""
