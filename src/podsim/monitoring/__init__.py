"""Exporters, dashboards, alert rules and diagnosis: a machine as Prometheus sees it."""
