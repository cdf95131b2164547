// A hue for each service: the same in every trace and on the map.

/** Hues that stay apart from each other, and from the red of errors (about 25). */
const HUES = [195, 265, 145, 305, 85, 230, 170, 335, 115, 285, 60, 210];

/** Hue of a service, from its name alone, so that it is the same on every page. */
export function hueOf(service: string): number {
  let hash = 2166136261;
  for (const char of service) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16777619) >>> 0;
  return HUES[(hash ^ (hash >>> 15)) % HUES.length] ?? 195;
}

/** Hues for the services of one picture. A service keeps its own hue; where two would collide, one takes a free hue. */
export function hues(services: readonly string[]): ReadonlyMap<string, number> {
  const taken = new Set<number>();
  const result = new Map<string, number>();
  // A span of the network has no service, and takes nobody's hue.
  for (const service of [...services].filter(Boolean).sort()) {
    const start = HUES.indexOf(hueOf(service));
    let hue = HUES[start] ?? 195;
    for (let n = 0; n < HUES.length && taken.has(hue); n += 1) hue = HUES[(start + n) % HUES.length] ?? hue;
    taken.add(hue);
    result.set(service, hue);
  }
  return result;
}
