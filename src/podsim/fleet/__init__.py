"""Whole machines over days and months: jobs in queues, what fails, what it draws and costs."""
