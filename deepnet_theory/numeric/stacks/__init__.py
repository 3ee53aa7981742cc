"""What is measured on: settings, depths, data, and the stacks of all seeds."""
