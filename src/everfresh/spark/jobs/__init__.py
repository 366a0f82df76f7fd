"""Jobs: what they are told and answer, and what runs in their tasks."""
