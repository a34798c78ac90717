import { expect, test } from "vitest";

import { indented } from "../src/words/indented";

test("a member a line, with empty objects and lists on one", () => {
  const text = '{"a":[1, {"b" : "x,{}\\":[ "} ],"c":{ },"d":[],"e":null}';
  expect(indented(text)).toBe(JSON.stringify(JSON.parse(text), null, 2));
});

test("numbers stay as they were sent", () => {
  expect(indented('{"id":12345678901234567890,"x":1.0}')).toBe(
    '{\n  "id": 12345678901234567890,\n  "x": 1.0\n}',
  );
});

test.each(["date;rows\n1;2", "{not json}", '"a, b"', "1", "", "null"])("%j stays as it is", (text) => {
  expect(indented(text)).toBe(text);
});
