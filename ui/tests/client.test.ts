import { afterEach, expect, test, vi } from "vitest";

import { post, refusalOf, Refused } from "../src/api/client";

afterEach(() => void vi.unstubAllGlobals());

const response = (status: number, body: unknown): Response =>
  new Response(typeof body === "string" ? body : JSON.stringify(body), { status });

test("a refusal says what the server says", async () => {
  expect(await refusalOf(response(409, { detail: "It is not cancelled." }))).toMatchObject({
    status: 409,
    detail: "It is not cancelled.",
  });
});

test("the mistakes of a request are named with their fields", async () => {
  const detail = [
    { loc: ["body", "type"], msg: "Field required" },
    { loc: ["query", "limit"], msg: "too large" },
  ];
  expect((await refusalOf(response(422, { detail }))).detail).toBe("type: Field required; limit: too large");
});

test.each([
  [401, /signed out/],
  [403, /may not/],
  [404, /does not know/],
  [503, /starting/],
  [500, /Its log says why/],
])("status %i without a word of JSON says what to do", async (status, words) => {
  expect((await refusalOf(response(status, "<html>nginx</html>"))).detail).toMatch(words);
});

test("POST sends JSON from this origin, and throws what was refused", async () => {
  const fetched = vi.fn(async () => response(200, { cancelled: "x" }));
  vi.stubGlobal("fetch", fetched);
  expect(await post("https://example.com/interlock-ui/cancel", { name: "x" })).toEqual({ cancelled: "x" });
  expect(fetched).toHaveBeenCalledWith(
    "https://example.com/interlock-ui/cancel",
    expect.objectContaining({ method: "POST", credentials: "same-origin", body: '{"name":"x"}' }),
  );
  vi.stubGlobal("fetch", async () => response(403, { detail: "No." }));
  await expect(post("https://example.com/", {})).rejects.toEqual(new Refused(403, "No."));
  vi.stubGlobal("fetch", async () => Promise.reject(new TypeError("Failed to fetch")));
  await expect(post("https://example.com/", {})).rejects.toMatchObject({ status: 0 });
});
