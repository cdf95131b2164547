import { useEffect, useRef } from "react";

type Handlers = Record<string, (event: KeyboardEvent) => void>;

/**
 * Keys of the page, while no field has the focus and no modifier is held: `{ "j ArrowDown": move }`. Names are those of
 * `KeyboardEvent.key`, and `Space`.
 */
export function useKeys(handlers: Handlers): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement | null;
      if (target && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))) return;
      // A focused button or link keeps its own Enter and blank.
      if (target && /^(A|BUTTON)$/.test(target.tagName) && (event.key === "Enter" || event.key === " ")) return;
      const name = event.key === " " ? "Space" : event.key;
      const handler = Object.entries(latest.current).find(([keys]) => keys.split(" ").includes(name))?.[1];
      if (!handler) return;
      event.preventDefault();
      handler(event);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}
