"""What runs on one worker: a block of statements over its part of the state, and what it sends to others."""
