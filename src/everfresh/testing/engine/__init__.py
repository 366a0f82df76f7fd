"""What every engine must satisfy, by subject; `everfresh.testing.engine_suite` puts it together."""
