// The URL is the view's state: `useUrl` reads it, `go` changes it.
import { useMemo, useSyncExternalStore } from "react";

const CHANGED = "wirespan:url";

function subscribe(listener: () => void): () => void {
  window.addEventListener("popstate", listener);
  window.addEventListener(CHANGED, listener);
  return () => {
    window.removeEventListener("popstate", listener);
    window.removeEventListener(CHANGED, listener);
  };
}

const snapshot = () => window.location.pathname + window.location.search;

export interface Url {
  readonly path: string;
  readonly search: URLSearchParams;
}

export function useUrl(): Url {
  const text = useSyncExternalStore(subscribe, snapshot);
  return useMemo(() => {
    const url = new URL(text, "http://here");
    return { path: url.pathname, search: url.searchParams };
  }, [text]);
}

/** Goes to a place in the UI. `replace` for changes that the back button should skip. */
export function go(to: string, replace = false): void {
  if (to === snapshot()) return;
  if (replace) window.history.replaceState(null, "", to);
  else window.history.pushState(null, "", to);
  window.dispatchEvent(new Event(CHANGED));
}

/** The path with these parameters. */
export function href(path: string, search: URLSearchParams): string {
  const query = search.toString();
  return query ? `${path}?${query}` : path;
}

/** Changes parameters of the place where we are; an empty value removes. */
export function setParams(changes: Record<string, string>, replace = true): void {
  const search = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) search.set(name, value);
    else search.delete(name);
  }
  go(href(window.location.pathname, search), replace);
}
