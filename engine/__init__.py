"""The engine: matches events against registrations, keeps partial matches, fires, and delivers firings."""
