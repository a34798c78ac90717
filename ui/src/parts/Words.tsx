import { Fragment, type ReactElement } from "react";

import { prose, type Prose } from "../words/prose";
import { visible } from "../words/visible";
import { Moment } from "./Moment";

/** A sentence, as text or put together, with its times in the browser's zone. */
export function Words({ of }: { of: Prose | string }): ReactElement {
  const pieces = typeof of === "string" ? prose(of) : of;
  return (
    <>
      {pieces.map((piece, number) => (
        <Fragment key={number}>
          {typeof piece === "string" ? (
            visible(piece)
          ) : (
            <Moment ms={piece.atMs} relative={piece.relative ?? false} />
          )}
        </Fragment>
      ))}
    </>
  );
}
