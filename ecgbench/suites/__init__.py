"""The room of suites: named plans with command, duration and expectation."""
