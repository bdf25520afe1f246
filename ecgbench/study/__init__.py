"""The study: plan and run."""
