/** The moment of which the fixtures are. */
export const WRITTEN_MS = Date.parse("2026-11-20T09:40:00Z");
