import type { CSSProperties } from "react";
import { hueOf } from "../domain/colour";
import css from "./Service.module.css";

/** Sets the hue of `.service-colour` below it. */
export function hueStyle(hue: number): CSSProperties {
  return { "--hue": hue } as CSSProperties;
}

/** A service's name in its colour. */
export function Service({ name, hue, count }: { name: string; hue?: number | undefined; count?: number | undefined }) {
  return (
    <span className={`service-colour ${css.chip}`} style={hueStyle(hue ?? hueOf(name))}>
      {name || "unknown service"}
      {count !== undefined && count > 1 && <span className={css.count}> {count}</span>}
    </span>
  );
}
