// What an administrator does once on a new server, and what of it is still to do.
import type { components } from './api/schema';
import type { Disk, SnapshotSchedule, Space } from './api/types';

type Schemas = components['schemas'];

export interface Known {
  channels: readonly Pick<Schemas['NotifyChannel'], 'trouble'>[];
  rules: readonly Pick<Schemas['NotifyRule'], 'enabled'>[];
  deliveries: readonly Pick<Schemas['NotifyDelivery'], 'state'>[];
  /** Changes of the server itself. */
  audit: readonly Pick<Schemas['AuditRecord'], 'operation' | 'status'>[];
  /** Of each volume, as far as they were asked for. */
  schedules: readonly { volume: string; rules: SnapshotSchedule['rules'] }[];
  disks: readonly Pick<Disk, 'usage'>[];
  spaces: readonly Pick<Space, 'layout' | 'protection'>[];
  scrub: Schemas['Preferences']['scrub_every'];
}

export type StepId = 'mail' | 'snapshots' | 'spare' | 'backup' | 'scrub';

export interface Step {
  id: StepId;
  title: string;
  text: string;
  href: string;
}

const succeeded = (known: Known, operation: string) =>
  known.audit.some((record) => record.operation === operation && record.status < 300);

function mail({ channels, rules, deliveries, ...known }: Known): string | null {
  if (channels.length === 0) return 'Nobody hears of a failed disk: add a channel, and a rule that says what goes out by it.';
  if (!rules.some((rule) => rule.enabled)) return 'There is a channel and no rule: nothing is sent.';
  const isTested =
    deliveries.some((one) => one.state === 'delivered') ||
    succeeded({ channels, rules, deliveries, ...known }, 'notify_channel_test');
  if (!isTested) return 'Nothing was sent yet: test the channel.';
  return channels.some((channel) => !channel.trouble) ? null : 'No channel delivers: see what is wrong with it.';
}

function snapshots({ schedules }: Known): string | null {
  const without = schedules.filter(({ rules }) => rules.length === 0).map(({ volume }) => volume);
  if (without.length === 0) return null;
  return `What is removed from ${without.slice(0, 3).join(', ')}${without.length > 3 ? ', …' : ''} cannot be brought back: have snapshots made by the clock.`;
}

function spare({ disks, spaces }: Known): string | null {
  const redundant = spaces.filter(({ layout }) => layout !== 'simple');
  const isReady =
    disks.some(({ usage }) => usage === 'hot-spare') || redundant.every(({ protection }) => protection.rebuildable_losses > 0);
  return redundant.length === 0 || isReady
    ? null
    : 'A lost disk is not rebuilt before a new one is there: make a disk a hot spare, or leave room on the others.';
}

/** What is still to do, the most urgent first. */
export function openSteps(known: Known, volume: string | undefined): Step[] {
  const [pool = '', name = ''] = volume?.split('/') ?? [];
  const all: [StepId, string, string | null, string][] = [
    ['mail', 'Be told of problems', mail(known), '/notifications'],
    ['snapshots', 'Schedule snapshots', snapshots(known), volume ? `/volumes/${pool}/${name}` : '/volumes'],
    ['spare', 'Have a spare', spare(known), '/disks'],
    [
      'backup',
      'Back up the configuration',
      succeeded(known, 'backup') ? null : 'Accounts, settings and notifications are on this server only: download a copy.',
      '/settings',
    ],
    [
      'scrub',
      'Choose when disks are read through',
      known.scrub.origin === 'default'
        ? 'Scrubs find silent damage while it can be repaired; nobody chose how often they run.'
        : null,
      '/settings',
    ],
  ];
  return all.flatMap(([id, title, text, href]) => (text === null ? [] : [{ id, title, text, href }]));
}
