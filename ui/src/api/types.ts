// Names for the generated types.
import type { components } from "./generated/schema";

type Schemas = components["schemas"];

export type SpanView = Schemas["SpanView"];
export type TraceView = Schemas["TraceView"];
export type TraceSpan = Schemas["TraceSpanView"];
export type SpanCalls = Schemas["SpanCallsView"];
export type SpanWaits = Schemas["SpanWaitsView"];
export type SpanWait = Schemas["WaitView"];
export type FlameView = Schemas["FlameView"];
export type FlameBox = Schemas["FlameBoxView"];
export type SpanLink = Schemas["SpanLinkView"];
export type SpanList = Schemas["SpanList"];
export type TraceList = Schemas["TraceList"];
export type TraceSummary = Schemas["TraceSummary"];
export type ServiceMap = Schemas["ServiceMap"];
export type MapEdge = Schemas["MapEdge"];
export type EdgeHistory = Schemas["EdgeHistory"];
export type EdgePoint = Schemas["EdgePoint"];
export type TcpStats = Schemas["TcpStats"];
export type MapNode = Schemas["MapNode"];
export type StatusView = Schemas["StatusView"];
export type Names = Schemas["Names"];
export type PacketsView = Schemas["PacketsView"];
export type PacketPlace = Schemas["PacketPlace"];
export type LegView = Schemas["LegView"];
export type HeatView = Schemas["HeatView"];
export type HopView = Schemas["HopView"];
export type FleetView = Schemas["FleetView"];
export type FleetAgent = Schemas["FleetAgent"];
export type BetweenView = Schemas["BetweenView"];
export type ClockView = Schemas["ClockView"];
export type TimeView = Schemas["TimeView"];
export type Problem = Schemas["Problem"];
