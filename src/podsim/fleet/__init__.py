"""Whole machines over days and months: jobs in queues, failures, power and cost."""
