// The requests of the wizards, by the API's document.
import type { components } from '../lib/api/schema';

type Schemas = components['schemas'];

export type AddLun = Schemas['AddLun'];
export type CreateExport = Schemas['CreateExport'];
export type CreatePool = Schemas['CreatePool'];
export type CreateSpace = Schemas['CreateSpace'];
export type CreateTarget = Schemas['CreateTarget'];
export type CreateVolume = Schemas['CreateVolume'];
export type Usage = NonNullable<Schemas['Disk']['usage']>;
