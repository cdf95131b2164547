import { QueryClientProvider } from "@tanstack/react-query";
import { render } from "@testing-library/react";
import { vi } from "vitest";
import { App } from "../App";
import { makeClient } from "../api/queries";

type Answer = object | { status: number; body: object } | Error;

/** The requests that were made, newest last. */
export interface Server {
  asked: URL[];
  /** What was ordered (POST). */
  orders: { path: string; body: unknown }[];
}

const names = { values: ["web", "cart"] };

/** Shows the UI at a path, with a server that gives these answers by path; to orders those of `POST path`. */
export function show(path: string, answers: Record<string, Answer>): Server {
  const server: Server = { asked: [], orders: [] };
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, how) => {
    const url = new URL(String(input), "http://server");
    server.asked.push(url);
    const known: Record<string, Answer> = { "/api/v1/suggest": names, ...answers };
    const isOrder = how?.method === "POST";
    if (isOrder) server.orders.push({ path: url.pathname, body: JSON.parse(String(how.body)) });
    const answer =
      (isOrder ? known[`POST ${url.pathname}`] : undefined) ??
      known[url.pathname] ??
      new Error(`no answer for ${url.pathname}`);
    if (answer instanceof Error) throw new TypeError(answer.message);
    const { status, body } = "status" in answer && "body" in answer ? answer : { status: 200, body: answer };
    return new Response(JSON.stringify(body), { status: Number(status) });
  });
  window.history.replaceState(null, "", path);
  render(
    <QueryClientProvider client={makeClient()}>
      <App />
    </QueryClientProvider>,
  );
  return server;
}
