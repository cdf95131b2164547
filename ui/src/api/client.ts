// Asks the server, and says in words what went wrong.
import type { Problem } from "./types";

/** The server answered, but not with what was asked for. */
export class ApiProblem extends Error {
  override readonly name = "ApiProblem";
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.message);
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

export function get<T>(path: string, params: Record<string, string> = {}, signal?: AbortSignal): Promise<T> {
  const query = new URLSearchParams(params).toString();
  return ask(query ? `${path}?${query}` : path, {
    headers: { accept: "application/json" },
    ...(signal ? { signal } : {}),
  });
}

/** Gives an order. */
export function post<T>(path: string, order: object): Promise<T> {
  const headers = { accept: "application/json", "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(order) });
}

async function ask<T>(path: string, how: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, how);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable("the server does not answer");
  }
  const body: unknown = await response.json().catch(() => null);
  if (response.ok && body !== null) return body as T;
  throw new ApiProblem(
    response.status,
    problemOf(body) ?? { code: "http", message: `the server answered ${response.status}` },
  );
}

function problemOf(body: unknown): Problem | null {
  const error = (body as { error?: Problem } | null)?.error;
  return error && typeof error.message === "string" ? error : null;
}
