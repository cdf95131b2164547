import { useState } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "wirespan.theme";
const NEXT: Record<Theme, Theme> = { system: "dark", dark: "light", light: "system" };

function current(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

/** The theme, and a function that takes the next one: system, dark, light. Kept in the browser. */
export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState(current);
  const cycle = () => {
    const next = NEXT[theme];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, next);
    } catch {
      // Without storage the choice lasts until the page is left.
    }
    setTheme(next);
  };
  return [theme, cycle];
}
