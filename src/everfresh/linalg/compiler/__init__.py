"""From a program to triggers (Algorithm 6.3): flat statements, factored deltas, cost, plans, schedules."""
