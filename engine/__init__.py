"""The engine: matches events against registrations, stores half-met conditions, fires, delivers firings."""
