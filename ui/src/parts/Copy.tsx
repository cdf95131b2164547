import { useEffect, useState } from "react";

/** Copies a text, and says whether it worked. */
export function Copy({ label, text }: { label: string; text: () => string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setSaid("Copied");
    } catch {
      setSaid("The browser refused");
    }
  };
  return (
    <button type="button" onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}
