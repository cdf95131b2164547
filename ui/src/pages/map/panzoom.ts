// Moving and magnifying a picture: by pointer, wheel with Ctrl (a pinch), keys and buttons.
import { type PointerEvent, useEffect, useRef, useState } from "react";
import { useKeys } from "../../routing/keys";

/** The upper left corner, in units of the picture, and how much larger than whole it is. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

const WHOLE: View = { x: 0, y: 0, scale: 1 };
const MOST = 8;
/** Part of the picture that an arrow key moves. */
const STEP = 0.12;
/** Pixels that the pointer may move in a click. */
const CLICK = 4;

/** The view with another scale, such that the point (as parts of the view) stays where it is. */
export function zoomed(view: View, factor: number, at: { x: number; y: number }, width: number, height: number): View {
  const scale = Math.min(MOST, Math.max(1, view.scale * factor));
  const x = view.x + at.x * (width / view.scale - width / scale);
  const y = view.y + at.y * (height / view.scale - height / scale);
  return kept({ x, y, scale }, width, height);
}

/** The view, moved back so that it shows nothing outside. */
export function kept(view: View, width: number, height: number): View {
  const within = (value: number, size: number) => Math.min(Math.max(0, value), size - size / view.scale);
  return { x: within(view.x, width), y: within(view.y, height), scale: view.scale };
}

export function usePanZoom(width: number, height: number) {
  const [view, setView] = useState(WHOLE);
  const [moving, setMoving] = useState(false);
  const ref = useRef<SVGSVGElement>(null);
  const drag = useRef<{ x: number; y: number; view: View; far: boolean } | null>(null);
  const zoom = (factor: number, at = { x: 0.5, y: 0.5 }) => setView((old) => zoomed(old, factor, at, width, height));
  const reset = () => setView(WHOLE);
  const move = (dx: number, dy: number) =>
    setView((old) =>
      kept({ ...old, x: old.x + (dx * width) / old.scale, y: old.y + (dy * height) / old.scale }, width, height),
    );
  useKeys({
    "+ =": () => zoom(1.25),
    "- _": () => zoom(0.8),
    "0": reset,
    ArrowLeft: () => move(-STEP, 0),
    ArrowRight: () => move(STEP, 0),
    ...(view.scale > 1 ? { ArrowUp: () => move(0, -STEP), ArrowDown: () => move(0, STEP) } : {}),
  });
  // Another picture is seen whole.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the size stands for the picture
  useEffect(() => setView(WHOLE), [width, height]);
  useEffect(() => {
    const svg = ref.current;
    if (!svg) return;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      const at = { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
      setView((old) => zoomed(old, Math.exp(-event.deltaY * 0.0025), at, width, height));
    };
    // React's own listener may not prevent the page from being magnified.
    svg.addEventListener("wheel", wheel, { passive: false });
    return () => svg.removeEventListener("wheel", wheel);
  }, [width, height]);
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.button === 0) drag.current = { x: event.clientX, y: event.clientY, view, far: false };
    },
    onPointerMove: (event: PointerEvent<SVGSVGElement>) => {
      const from = drag.current;
      if (!from) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.far && Math.hypot(dx, dy) < CLICK) return;
      if (!from.far) event.currentTarget.setPointerCapture(event.pointerId);
      from.far = true;
      setMoving(true);
      const box = event.currentTarget.getBoundingClientRect();
      const unit = width / from.view.scale / box.width;
      setView(kept({ ...from.view, x: from.view.x - dx * unit, y: from.view.y - dy * unit }, width, height));
    },
    onPointerUp: () => {
      setMoving(false);
      // The click that follows a drag is none.
      if (drag.current?.far) window.addEventListener("click", swallow, { capture: true, once: true });
      setTimeout(() => window.removeEventListener("click", swallow, { capture: true }), 0);
      drag.current = null;
    },
    onPointerCancel: () => {
      setMoving(false);
      drag.current = null;
    },
  };
  return { ref, view, moving, zoom, reset, isWhole: view.scale === 1, handlers };
}

function swallow(event: MouseEvent): void {
  event.stopPropagation();
  event.preventDefault();
}
