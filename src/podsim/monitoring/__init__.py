"""Monitoring with Prometheus: exporters, dashboards, alert rules and diagnosis."""
