// Packets for tests: a place, and the tables of a program that has seen nothing.
import type { PacketPlace, PacketsView } from "../api/types";

export const at = (point: string, device: string, netns = ""): PacketPlace => ({ point, device, netns, tunnel: "" });

export const nothing = (state: PacketsView["state"]): PacketsView => ({
  state,
  program: "",
  changes: 0,
  elapsed_ms: 0,
  limit_ms: 0,
  sightings: 0,
  lost: 0,
  notes: [],
  journeys: 0,
  resent: 0,
  places: [],
  legs: [],
  drops: [],
  loss: [],
  flows: [],
  flows_left_out: 0,
});
