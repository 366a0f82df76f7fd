"""What a terminal shows: tables, progress, benchmark reports, and the SQL prompt.

Sits between the command line and what it runs: benchmarks return data, the demo is handed a `Display`, and
neither knows of terminals. rich is imported when something is shown, not before.
"""

from everfresh.console.display import Column, Display, Progress, Task
from everfresh.console.format import bytes_, cell, duration, number, short

__all__ = ["Column", "Display", "Progress", "Task", "bytes_", "cell", "duration", "number", "short"]
