// The lists of this page, each fetched once for all of its parts.
import { call } from '../../lib/api/client';
import { Resource } from '../../lib/live.svelte';

export const channels = new Resource(['notifications'], (signal) => call('get', '/notifications/channels', { signal }));
export const rules = new Resource(['notifications'], (signal) => call('get', '/notifications/rules', { signal }));
export const deliveries = new Resource(['notifications'], (signal) => call('get', '/notifications/deliveries', { signal }));
