// The API's types by their short names. They come from docs/openapi.json.
import type { Qos } from '../qos';
import type { components } from './schema';

type Schemas = components['schemas'];

export type Affected = Schemas['Affected'];
export type ApiError = Schemas['ApiError'];
export type Cause = Schemas['Cause'];
export type CauseDisk = Schemas['CauseDisk'];
export type Condition = Schemas['Condition'];
export type ConversionPlan = Schemas['ConversionPlan'];
export type Disk = Schemas['Disk'];
export type DiskLatency = Schemas['DiskLatency'];
export type EvacuationPlan = Schemas['EvacuationPlan'];
export type Event = Schemas['Event'];
export type Export = Schemas['Export'];
export type Health = Schemas['Disk']['health'];
export type History = Schemas['History'];
export type HistoryKind = Schemas['HistoryKind'];
export type Job = Schemas['Job'];
export type LayoutCapacity = Schemas['LayoutCapacity'];
export type LayoutKind = Schemas['LayoutKind'];
export type LiveSample = Schemas['LiveSample'];
export type ObjectRef = Schemas['ObjectRef'];
export type Pool = Schemas['Pool'];
export type Rates = Schemas['Rates'];
export type RebalancePlan = Schemas['RebalancePlan'];
export type Role = Schemas['Role'];
export type Session = Schemas['Session'];
export type Slab = Schemas['Slab'];
export type Space = Schemas['Space'] & { qos?: Qos };
export type SpaceOption = Schemas['SpaceOption'];
export type SpacePlan = Schemas['SpacePlan'];
export type SpaceRow = Schemas['SpaceRow'];
export type Status = Schemas['Status'];
export type Volume = Schemas['Volume'];
export type VolumeShrinkPlan = Schemas['VolumeShrinkPlan'];
export type VolumeFinding = Schemas['VolumeFinding'];
