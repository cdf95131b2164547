// Names for the generated types.
import type { components } from "./generated/schema";

type Schemas = components["schemas"];

export type SpanView = Schemas["SpanView"];
export type TraceView = Schemas["TraceView"];
export type TraceSpan = Schemas["TraceSpanView"];
export type SpanWaits = Schemas["SpanWaitsView"];
export type SpanWait = Schemas["WaitView"];
export type FlameBox = Schemas["FlameBoxView"];
export type SpanLink = Schemas["SpanLinkView"];
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
export type Problem = Schemas["Problem"];
