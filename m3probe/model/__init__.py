"""The recording, its tables, findings and the report: what every other room passes on."""
