"""Running activities: slots, attempts, threads, processes, sessions. Knows no turns."""
