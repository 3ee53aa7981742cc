"""An audit: differences → predicted → effect → findings → steps → judging; optimizer beside."""
