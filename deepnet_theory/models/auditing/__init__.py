"""An audit: ``differences`` → ``effect`` → ``findings`` → ``judging``; ``optimizer`` beside."""
