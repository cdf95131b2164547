import type { ComponentProps, MouseEvent } from "react";
import { go } from "./url";

/** A link within the UI; a new tab and the like are left to the browser. */
export function Link({ href, onClick, ...rest }: ComponentProps<"a"> & { href: string }) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={click} {...rest} />;
}
