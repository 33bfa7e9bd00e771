"""One file a scenario. Each has ``run(report, asked)``: it measures, and adds what it found to the report."""
