"""Results: plain values in SI that name no formula, for reports, verification and files."""
